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
	// References compares what a job points to; nil: nothing is compared.
	References References
}

// References compares what a job points to with the hash that the job carries.
type References interface {
	// Fault is what is wrong with it, one of the blocks of references; NotBlocked
	// where it is as it should be or cannot be compared.
	Fault(ctx context.Context, r job.Reference) reconcile.Block
}

var _ Assessor = Judge{}

// An edit is a correction: the table knows one word for both.
const (
	liftFixed = "fixed"
	liftEdit  = "edit"
)

// Assess implements Assessor. A claimed class that the policy does not have is
// ErrRefused.
func (g Judge) Assess(ctx context.Context, jobs []job.Job, l Lifts) ([]reconcile.Assessed, error) {
	lifts := reconcile.Lifts{
		Fixed: l.Fixed != "" || l.Edit != nil, AcceptProvisional: l.AcceptProvisional != "", AcceptDuplicates: l.AcceptDuplicates != "", Discard: l.Discard,
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
		if as[i].Decision.Action != reconcile.Redrive {
			continue // nothing would be sent of it
		}
		if b := g.fault(ctx, as[i].Job); b != reconcile.NotBlocked {
			as[i].Input.Block = b
			as[i].Decision = as[i].With(lifts, declared)
		}
		if l.Fixed == "" && as[i].Decision.Lift == liftFixed {
			as[i].Decision.Lift = liftEdit
		}
	}
	return as, nil
}

// fault is the first thing that is wrong with what the job points to and a
// worker would send.
func (g Judge) fault(ctx context.Context, j job.Job) reconcile.Block {
	for _, r := range j.References {
		if g.References == nil || !r.Sent() {
			continue
		}
		if b := g.References.Fault(ctx, r); b != reconcile.NotBlocked {
			return b
		}
	}
	return reconcile.NotBlocked
}
