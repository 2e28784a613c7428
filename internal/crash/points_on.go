//go:build crashpoints

package crash

// points lists every boundary in the order in which a recovery passes them. A
// test compares it with the calls of At in the source.
var points = []Point{
	"worker.before_send",
	"worker.after_send",
	"worker.before_ack",
	"worker.after_ack",
	"reconcile.open.closed",
	"reconcile.fence.intent",
	"reconcile.fence.ledger",
	"reconcile.fence.outcome",
	"reconcile.look.first",
	"reconcile.look.control",
	"reconcile.look.second",
	"reconcile.verdict.saved",
	"reconcile.move.intent",
	"reconcile.move.ledger",
	"reconcile.move.outcome",
	"run.0.begun",
	"run.1.received",
	"run.2.rechecked",
	"run.2.archived",
	"run.3.intended",
	"run.4.queued",
	"run.5.published",
	"run.5.recorded",
	"run.6.acknowledged",
	"run.6.recorded",
	"run.7.gone",
	"run.7.ending",
	"run.7.ended",
	"resume.0.begun",
	"resume.1.closed",
	"resume.2.acknowledged",
	"resume.2.stopped",
	"resume.3.settled",
}
