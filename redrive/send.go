package redrive

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// maxAgain is how often one item goes back for a later batch, because the broker
// asked to slow down or a delivery's lease was over.
const maxAgain = 5

// send publishes the works, batch by batch and destination by destination, and
// answers work for work. It never repeats a publish.
func (s *session) send(ctx context.Context, ws []*work) []broker.Result {
	rs := make([]broker.Result, len(ws))
	for _, part := range s.packed(ws) {
		out := make([]broker.Outgoing, len(part))
		for i, k := range part {
			out[i] = outgoing(s.id, ws[k])
		}
		for i, r := range s.Broker.Publish(ctx, ws[part[0]].item.Destination, out) {
			rs[part[i]] = r
		}
	}
	return rs
}

func outgoing(id PlanID, w *work) broker.Outgoing {
	return broker.Outgoing{Message: w.outgoing(), DedupID: DedupID(id, w.delivery.Copy)}
}

// packed groups the works into calls: one destination each, within the
// broker's limits of entries and bytes, in the order given.
func (s *session) packed(ws []*work) [][]int {
	var parts [][]int
	open := map[string]int{} // destination to its last part
	size := map[string]int{}
	for i, w := range ws {
		to, n := w.item.Destination, messageBytes(w.outgoing())
		k, ok := open[to]
		full := ok && (len(parts[k]) == atLeast(s.caps.MaxBatch, len(ws)) ||
			s.caps.MaxBatchBytes > 0 && size[to]+n > s.caps.MaxBatchBytes)
		if !ok || full {
			parts = append(parts, nil)
			k = len(parts) - 1
			open[to], size[to] = k, 0
		}
		parts[k] = append(parts[k], i)
		size[to] += n
	}
	return parts
}

func messageBytes(m broker.Message) int {
	n := len(m.Body) + len(m.Raw)
	for _, a := range slices.Concat(m.Attributes, m.System) {
		n += len(a.Name) + len(a.Type) + len(a.Value)
	}
	return n
}

// again reports whether an item may go back for a later batch, and remembers how
// far it has come.
func (s *session) again(w *work) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[w.index]
	e.again++
	e.intended, e.queued, e.published = w.intended, w.queued, w.published
	s.entries[w.index] = e
	return e.again <= maxAgain
}

// inBatches calls f with at most n entries at a time (n 0: all at once) and
// joins the results.
func inBatches(ds []broker.Delivery, n int, f func([]broker.Delivery) []broker.Result) []broker.Result {
	var rs []broker.Result
	for part := range slices.Chunk(ds, atLeast(n, len(ds))) {
		rs = append(rs, f(part)...)
	}
	return rs
}

// atLeast is n, or all when n is not a limit; never 0.
func atLeast(n, all int) int {
	if n > 0 {
		return n
	}
	return max(all, 1)
}

func compareCopies(a, b broker.CopyID) int { return strings.Compare(a.String(), b.String()) }

// reasonOf is an error as a record keeps it: the first line, bounded, so that a
// broker's text cannot carry a payload into the log.
func reasonOf(err error) string {
	for _, known := range []error{broker.ErrLeaseLost, broker.ErrTooLarge, broker.ErrThrottled, broker.ErrNoQueue, broker.ErrDenied} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	if len(line) > 200 {
		line = strings.ToValidUTF8(line[:200], "")
	}
	return line
}
