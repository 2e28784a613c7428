package reconcile

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/internal/job"
)

// WhyManualHold is why a decision is to hold while a person reviews the job.
const WhyManualHold = "manual_hold"

// HoldID is what a manual hold lies on: a job in a dead-letter queue. It goes by
// the queue's own name, so that a second configured name does not lead around it.
type HoldID struct {
	Entity string // the dead-letter queue's own name
	// Job is the job key; where there is none, the payload hash, since a queue can
	// forget the origin of a message and give it another identity; where there is
	// no payload either, the copy. A word in front keeps them apart, and they are
	// quoted, so that no store has to keep bytes that are no text.
	Job string
}

// HoldIDOf is what a hold on the job lies on. All copies of one job have the same.
func HoldIDOf(j job.Job) HoldID {
	id := HoldID{Entity: j.Message.Copy.Entity}
	switch {
	case j.JobKey != "":
		id.Job = "job_key " + strconv.QuoteToASCII(j.JobKey)
	case j.PayloadSHA256 != "":
		id.Job = "payload " + j.PayloadSHA256
	default:
		id.Job = "copy " + strconv.QuoteToASCII(j.Message.Copy.ID)
	}
	return id
}

// ManualHold is a person's word that nothing may be done with a job until it is
// released. No lift of a plan, no approval and no verdict overrides it.
type ManualHold struct {
	HoldID

	Queue string // as it was named when the job was held
	// The identities of the copy by which the job was held, to find it again.
	JobKey, MessageID, CopyID string

	Owner  string // who reviews it
	Reason string
	By     string // who held it
	At     time.Time
}

// Holds answers which jobs are on hold. IDs that are not held are absent. Its
// error means that it is not known, and that nothing may be done with any of them.
type Holds interface {
	HoldsOf(ctx context.Context, ids []HoldID) (map[HoldID]ManualHold, error)
}

// readHolds asks for all jobs at once.
func (r *Reconciler) readHolds(ctx context.Context, jobs []job.Job) (map[HoldID]ManualHold, error) {
	ids := make([]HoldID, len(jobs))
	for i, j := range jobs {
		ids[i] = HoldIDOf(j)
	}
	holds, err := r.Holds.HoldsOf(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read manual holds: %w", err)
	}
	return holds, nil
}

// decision stands before the decision table, which is about what is proven.
func (h ManualHold) decision() Decision {
	return Decision{
		Action: Hold, Why: WhyManualHold,
		Needs: "release: redrivectl release JOB (held for " + h.Owner + ")",
	}
}
