package redrive

import (
	"context"
	"fmt"

	"github.com/redrivectl/redrivectl/reconcile"
)

// publishedBut is what the store remembers of the identities: what was published
// of each, and in its place, by any run but one.
func publishedBut(ctx context.Context, plans Plans, ids []Identity, except RunID) ([]Published, error) {
	ps, err := plans.PublishedOf(ctx, ids, except)
	if err != nil {
		return nil, fmt.Errorf("redrives so far: %w", err)
	}
	rs, err := plans.ReplacedOf(ctx, ids, except)
	if err != nil {
		return nil, fmt.Errorf("edits so far: %w", err)
	}
	for i, by := range rs {
		ps[i].Replaced, ps[i].ReplacedBy = by != "", by
	}
	return ps, nil
}

// identity is the item's job as it is, and editIdentity that of its edited copy.
func (it *Item) identity() Identity {
	return Identity{JobKey: it.JobKey, Entity: it.Copy.Entity, Origin: it.Origin, PayloadSHA256: it.PayloadSHA256}
}

func (it *Item) editIdentity() Identity {
	return Identity{JobKey: it.Edit.JobKey, Entity: it.Copy.Entity, Origin: it.Origin, PayloadSHA256: it.Edit.PayloadSHA256}
}

// notSince stops what went out since the plan was made, in whatever form: other
// copies of a job may have been in another plan, and a clock that is set back puts
// an expired plan in force again. Where the ledger has a row, its change decides
// too; this is asked all the same.
func (s *session) notSince(ctx context.Context, ws []*work, stop map[*work]ItemEnd) error {
	var asked []*work
	var ids []Identity
	for _, w := range ws {
		if w.queued || w.action != reconcile.Redrive || stop[w] != (ItemEnd{}) {
			continue
		}
		e := w.item.Edit
		asked, ids = append(asked, w), append(ids, w.item.identity())
		if e != nil && !e.again() {
			asked, ids = append(asked, w), append(ids, w.item.editIdentity())
		}
	}
	if len(ids) == 0 {
		return nil
	}
	ps, err := s.together.published.call(ctx, ids)
	if err != nil {
		return err
	}
	for i, w := range asked {
		original := i == 0 || asked[i-1] != w
		if why := w.item.outSince(original, ps[i]); why != "" && stop[w] == (ItemEnd{}) {
			stop[w] = ItemEnd{endSkipped, why}
		}
	}
	return nil
}

func (s *session) publishedAll(ctx context.Context, ids []Identity) ([]Published, error) {
	ps, err := publishedBut(ctx, s.Plans, ids, s.run)
	if err != nil {
		return nil, fmt.Errorf("re-check %d jobs: %w", len(ids), err)
	}
	return ps, nil
}

// outSince names why the item may not go, by what is published of its original or
// of its edited copy; empty: it may. It is the planner's rule.
func (it *Item) outSince(original bool, p Published) string {
	switch e := it.Edit; {
	case !original && (p.Count > 0 || p.Replaced):
		return whyKeyTaken
	case !original || e != nil && (e.SecondSend || e.again()):
		return ""
	case p.Replaced:
		return whyReplaced
	case p.Count > 0 && !it.Republish && !againHarmless(it):
		return whyPublished
	default:
		return ""
	}
}
