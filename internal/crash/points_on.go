//go:build crashpoints

package crash

// points lists every boundary in the order in which a recovery passes them. A
// test compares it with the calls of At in the source.
var points = []Point{
	"worker.before_send",
	"worker.after_send",
	"worker.before_ack",
	"worker.after_ack",
	"reconcile.fence.intent",
	"reconcile.fence.ledger",
	"reconcile.fence.outcome",
	"reconcile.look.first",
	"reconcile.control",
	"reconcile.look.second",
	"reconcile.verdict.saved",
	"reconcile.move.intent",
	"reconcile.move.ledger",
	"reconcile.move.outcome",
}
