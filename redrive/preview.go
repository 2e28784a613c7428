package redrive

import (
	"context"

	"github.com/itchyny/gojq"

	"github.com/redrivectl/redrivectl/internal/job"
)

// isOf reports that a job is what the item froze, byte for byte, and that the
// same would be sent of it.
func (it *Item) isOf(j job.Job) bool {
	return j.JobKey == it.JobKey && j.PayloadSHA256 == it.PayloadSHA256 && j.MessageSHA256 == it.MessageSHA256 &&
		j.BodySHA256 == it.BodySHA256 && j.SentSHA256 == it.SentSHA256 && (j.Original != nil) == it.Unwrap
}

// isOf reports that a job is the edited copy that was approved, byte for byte.
func (e *ItemEdit) isOf(j job.Job) bool {
	return j.JobKey == e.JobKey && j.PayloadSHA256 == e.PayloadSHA256 && j.BodySHA256 == e.BodySHA256 && j.MessageSHA256 == e.MessageSHA256
}

// Preview is an item's payload before and after the edit, both with the members
// of their objects sorted, so that only the difference differs. why says what
// keeps it from being shown: "changed_message" where the job is not the item's
// any more, "edit_differs" where the edit is not what was approved.
func (e *Editor) Preview(ctx context.Context, it Item, j job.Job) (before, after []byte, why string) {
	if !it.isOf(j) {
		return nil, nil, "changed_message"
	}
	now, err := e.Edit(ctx, j)
	if err != nil {
		return nil, nil, editWhy(err)
	}
	if it.Edit == nil || !it.Edit.isOf(now) {
		return nil, nil, "edit_differs"
	}
	return sortedJSON(j.Payload), sortedJSON(now.Payload), ""
}

// sortedJSON is a payload with sorted members, or as it is where it is no JSON.
func sortedJSON(payload []byte) []byte {
	v, err := exactJSON(payload)
	if err != nil {
		return payload
	}
	sorted, err := gojq.Marshal(v)
	if err != nil {
		return payload
	}
	return sorted
}
