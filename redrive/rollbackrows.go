package redrive

import (
	"context"
	"strings"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/crash"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
)

// foundRow is what the table says of an item, with the row that it spoke of.
type foundRow struct {
	found
	item string     // the item's own job key, as records name it
	key  ledger.Key // of the row
	row  ledger.Lookup
}

// takeBack goes through the plan in batches, each of which is whole or not begun.
func (b *rollback) takeBack(ctx context.Context) error {
	if err := b.remember(ctx); err != nil {
		return err
	}
	all, n := b.all(), b.atOnce()
	for from := 0; from < len(all); from += n {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := b.batch(context.WithoutCancel(ctx), all[from:min(from+n, len(all))]); err != nil {
			return err
		}
	}
	return nil
}

// batch looks at the rows and moves those that can be taken back, until each has
// an end: one that moved in the meantime is looked at again.
func (b *rollback) batch(ctx context.Context, part []int) error {
	ends := make(map[int]foundRow, len(part))
	left := part
	for range backRounds {
		var err error
		if left, err = b.round(ctx, left, ends); err != nil {
			return err
		}
		if len(left) == 0 {
			break
		}
	}
	if err := b.close(ctx, left, ends); err != nil {
		return err
	}
	for _, i := range part {
		b.note(i, ends[i])
	}
	return nil
}

// close ends what never came to rest.
func (b *rollback) close(ctx context.Context, left []int, ends map[int]foundRow) error {
	var recs []audit.Record
	for _, i := range left {
		f := ends[i]
		f.found = found{back: BackUnknown, why: "ledger"}
		ends[i] = f
		recs = append(recs, b.outcome(i, f)...)
	}
	return b.record(ctx, recs...)
}

// round is one look at rows, the intents of what is to be moved, the moves, and
// the outcomes. It returns the items whose move did not clearly win.
func (b *rollback) round(ctx context.Context, is []int, ends map[int]foundRow) (again []int, err error) {
	var recs []audit.Record
	var moved []int
	var cs []ledger.Change
	for n, f := range b.look(ctx, is) {
		i := is[n]
		ends[i] = f
		if f.move == nil {
			ends[i] = b.late(f)
			recs = append(recs, b.outcome(i, ends[i])...)
			continue
		}
		c := *f.move
		c.Key, c.Actor, c.Unread = f.key, b.Actor.Name, true
		moved, cs = append(moved, i), append(cs, c)
		recs = append(recs, b.intent(i, f)...)
	}
	if err := b.record(ctx, recs...); err != nil || len(cs) == 0 {
		return nil, err
	}
	crash.At("rollback.1.intended")
	rs, err := b.applyAll(ctx, cs)
	if err != nil {
		return nil, err
	}
	crash.At("rollback.2.moved")
	recs = nil
	for n, i := range moved {
		if rs[n].Outcome != ledger.Won {
			again = append(again, i)
			continue
		}
		f := ends[i]
		f.row.Row.State, f.row.Row.Attempt = ledger.Failed, cs[n].Attempt
		ends[i] = f
		recs = append(recs, b.outcome(i, f)...)
	}
	if err := b.record(ctx, recs...); err != nil {
		return nil, err
	}
	crash.At("rollback.3.recorded")
	return again, nil
}

// late makes an end of a row that is as this or an interrupted rollback has left
// it, and of which no outcome tells yet.
func (b *rollback) late(f foundRow) foundRow {
	if f.back == BackBefore && (b.open[f.item] || !strings.HasPrefix(b.before[f.item], audit.ResultDone+":")) {
		f.back = BackTaken
	}
	return f
}

// look reads the rows of items and asks the table.
func (b *rollback) look(ctx context.Context, is []int) []foundRow {
	keys := make([]ledger.Key, len(is))
	items := make([]*Item, len(is))
	for n, i := range is {
		it := &b.items[i]
		items[n] = it
		keys[n] = ledger.Key{JobKey: it.JobKey, Consumer: it.Consumer}
	}
	rows := b.rows(ctx, keys)
	edits := b.inPlaces(ctx, items, rows)
	fs := make([]foundRow, len(is))
	for n, it := range items {
		row := rows[n]
		begun := b.begun[it.Copy.String()]
		fs[n] = foundRow{key: keys[n], item: it.JobKey}
		if edits[n] != nil {
			it, row = it.edited(), edits[n]
			fs[n].key.JobKey = it.JobKey
		}
		fs[n].row, fs[n].found = *row, backOf(it, b.run, begun, *row)
	}
	return fs
}

func (b *rollback) intent(i int, f foundRow) []audit.Record {
	if b.open[f.item] {
		return nil
	}
	b.open[f.item] = true
	rec := b.itemRecord(i, f)
	rec.Phase, rec.Reason = audit.Intent, b.reason
	rec.Transition = string(f.move.From) + " -> " + string(f.move.To)
	return []audit.Record{rec}
}

// outcome tells how an item ended. What nothing was done with has none, nor what
// an earlier rollback has told in the same words.
func (b *rollback) outcome(i int, f foundRow) []audit.Record {
	rec := b.itemRecord(i, f)
	rec.Phase, rec.Result, rec.Reason = audit.Outcome, audit.ResultRefused, f.why
	switch f.back {
	case BackTaken:
		rec.Result, rec.Reason = audit.ResultDone, b.reason
	case BackUnknown:
		rec.Result = audit.ResultUnknown
	case BackClaimed, BackLeft:
	default:
		return nil
	}
	told := rec.Result + ":" + rec.Reason
	if !b.open[f.item] && b.before[f.item] == told {
		return nil
	}
	delete(b.open, f.item)
	b.before[f.item] = told
	return []audit.Record{rec}
}

func (b *rollback) rowName(k ledger.Key) string { return reconcile.LedgerRowName(b.LedgerName, k) }
