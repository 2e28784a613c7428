package redrive

import (
	"context"
	"fmt"

	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/reconcile"
)

// Facts finds out what is known of jobs. A *reconcile.Reconciler is one.
type Facts interface {
	Assess(ctx context.Context, jobs []job.Job) ([]reconcile.Assessed, error)
}

// Judge is an Assessor over facts: it decides again under the plan's lifts.
type Judge struct {
	Facts Facts
	// Disposition is what the policy has for a class; false: no such class.
	Disposition func(classify.Class) (classify.Disposition, bool)
}

var _ Assessor = Judge{}

// Assess implements Assessor. A claimed class that the policy does not have is
// ErrRefused.
func (g Judge) Assess(ctx context.Context, jobs []job.Job, l Lifts) ([]reconcile.Assessed, error) {
	lifts := reconcile.Lifts{
		Fixed: l.Fixed != "", AcceptProvision: l.AcceptProvision != "", AcceptDuplicates: l.AcceptDuplicates != "", Discard: l.Discard,
	}
	if l.As != "" {
		d, ok := g.Disposition(l.As)
		if !ok {
			return nil, fmt.Errorf("class %q is not in the policy: %w", l.As, ErrRefused)
		}
		lifts.As = d
	}
	declared := reconcile.NotDeclared
	if l.EffectsByFlag {
		declared = reconcile.ByFlag
	}
	as, err := g.Facts.Assess(ctx, jobs)
	if err != nil {
		return nil, err
	}
	for i := range as {
		as[i].Decision = as[i].With(lifts, declared)
	}
	return as, nil
}
