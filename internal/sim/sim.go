// Package sim runs the real planner, runner, reconciler, audit log and reference
// worker over a simulated world: time, broker, ledger, provider and store in
// memory, with crashes between any two steps, lost replies, slow and lying
// look-ups, paused workers and a second operator. A seed decides all of it, and
// every schedule is held to what the tool promises. See docs/simulation.md.
package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/provider"
	"github.com/redrivectl/redrivectl/redrive"
)

// epoch is when every schedule begins.
var epoch = time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)

// odds are how likely each kind of fault is at one boundary.
type odds struct {
	kill, fault, pause, slow, send, stall, lie, away float64
	longest                                          time.Duration // a process stands still

	race string // workers come late, and get in at this call of an operator

	focus string // the call at which a schedule has far more faults of one kind
	kind  kind
}

// kind is a kind of fault to which a schedule gives its attention.
type kind int

const (
	killing kind = iota
	failing
	stalling
)

// focused is how likely a fault is where the schedule looks for it: uniform walks
// come too seldom where it hurts.
const focused = 0.2

// painful are the calls at which a fault hurts most.
var painful = []string{
	"publish", "publish", "publish", "publish", "ack " + deadName, "ack " + sourceName, "ledger apply", "ledger apply", "ledger apply", "ledger get", "store append", "store append",
	"receive " + deadName, "extend " + deadName, "store begin run", "store end run", "store save verdicts", "look up", "send",
}

// places are all calls, in order.
var places = []string{
	"ack " + sourceName, "ack " + deadName, "browse", "dead-letter " + sourceName, "describe", "extend " + sourceName,
	"extend " + deadName, "ledger apply", "ledger clock", "ledger get", "ledger scan", "look up", "publish", "receive " + sourceName,
	"receive " + deadName, "release " + deadName, "rendering", "save rendering", "send", "store append", "store approvals",
	"store approved digests", "store archive", "store begin rollback", "store begin run", "store end rollback", "store end run",
	"store ends", "store find records", "store gate", "store heartbeat", "store holds", "store lift pause", "store live plans",
	"store lives", "store load plan", "store load run", "store open intents", "store open reconciliations", "store promote",
	"store published", "store publishes", "store remember", "store replaced", "store resume run", "store save approval", "store save plan",
	"store save verdict", "store save verdicts", "store save wish", "store seen", "store self redrives", "store set pace",
	"store set plan state", "store set state", "store tried before", "store verdicts", "store wish",
}

// at is how likely a fault of this kind is at a call.
func (o odds) at(k kind, op string) float64 {
	switch {
	case o.focus == op && o.kind == k:
		return focused
	case k == killing:
		return o.kill
	default:
		return o.fault
	}
}

// settings are the queue's, as the configuration has them.
type settings struct {
	claimLife, maxPause, clockMargin time.Duration
	leaseTTL, deliveryLease          time.Duration
}

// world is one schedule.
type world struct {
	clockwork
	odds     odds
	settings settings
	queues   *queues
	rows     *rows
	outside  outside
	memory   *memory
	rules    *classify.Policy
	policy   string // its digest
	edits    []*redrive.EditRule

	jobs      []string          // job keys, as the application made them
	made      map[string]string // what may be sent of a job, by the hash of the message
	keys      map[string]string // of bodies that were read
	broken    *Violation
	wished    map[redrive.RunID]time.Time
	takenBack map[redrive.PlanID]time.Time
	out       map[redrive.PlanID][]sent
	discarded map[string]bool
	opening   int // of openings; below 0: none
	operators int
	twin      func(storeOf) operatorStore // of a test: what stands before the store
	serials   int
}

// Result is how a schedule ended.
type Result struct {
	Seed   uint64
	Broken *Violation // nil: every promise held
	Trace  string     // with Options.Trace alone
	struck []int
}

// Options choose a schedule.
type Options struct {
	Seed  uint64
	Trace bool
	// without are the faults to leave out, by ordinal.
	without map[int]bool
	// focus is the call to whose crashes the schedule gives its attention; "": by lot.
	focus  string
	deaths map[string]bool // to be filled
}

// Run carries one schedule. The same options give the same result, to the byte.
func Run(o Options) (Result, error) {
	w, err := newWorld(o)
	if err != nil {
		return Result{}, err
	}
	w.begin()
	w.run()
	w.finish()
	return w.result(o.Seed), nil
}

func (w *world) result(seed uint64) Result {
	r := Result{Seed: seed, Broken: w.broken, struck: w.struck}
	if w.tracing {
		r.Trace = w.trace()
	}
	return r
}

// shipped is the policy that ships with the program. Loading it takes longer than
// a schedule.
var shipped = sync.OnceValues(classify.Default)

func newWorld(o Options) (*world, error) {
	rules, err := shipped()
	if err != nil {
		return nil, err
	}
	w := &world{
		clockwork: clockwork{
			rnd: rand.New(rand.NewPCG(o.Seed, 0x51b)), now: epoch, ended: make(chan struct{}), without: o.without, deaths: o.deaths, tracing: o.Trace, //nolint:gosec // A schedule is to repeat.
		},
		rules: rules, policy: rules.SHA256(), memory: newMemory(), made: map[string]string{}, keys: map[string]string{},
		wished: map[redrive.RunID]time.Time{}, takenBack: map[redrive.PlanID]time.Time{}, out: map[redrive.PlanID][]sent{},
		discarded: map[string]bool{},
	}
	for _, r := range []string{"", "r2"} {
		e, err := redrive.NewEditRule(`.text = "corrected"`, r)
		if err != nil {
			return nil, err
		}
		w.edits = append(w.edits, e)
	}
	w.draw()
	if o.focus != "" {
		w.odds.focus, w.odds.kind = o.focus, killing
	}
	return w, nil
}

// draw chooses what kind of world the schedule lies in.
func (w *world) draw() {
	w.odds = odds{
		kill: pick(w, []float64{0, 0.002, 0.005, 0.015}), fault: pick(w, []float64{0, 0.003, 0.01}), pause: pick(w, []float64{0, 0.003, 0.01}),
		slow: pick(w, []float64{0.01, 0.05, 0.15}), send: pick(w, []float64{0.2, 0.5, 0.8}), stall: pick(w, []float64{0, 0.1, 0.3}), lie: pick(w, []float64{0, 0.1, 0.4}), away: pick(w, []float64{0, 0.02, 0.1}),
		longest: pick(w, []time.Duration{time.Minute, 10 * time.Minute, time.Hour}),
	}
	if w.opening = -1; w.chance(0.4) {
		w.opening = w.rnd.IntN(len(openings))
	}
	switch {
	case w.opening >= 0 && w.chance(0.6):
		w.odds.race = openings[w.opening].window
	case w.chance(0.2):
		w.odds.race = pick(w, windows)
	}
	switch {
	case w.odds.race != "" && w.chance(0.7): // it needs nothing else to go wrong
		w.odds.kill, w.odds.fault, w.odds.pause, w.odds.lie = 0, 0, 0, 0
	case w.chance(0.8):
		w.odds.focus, w.odds.kind = pick(w, pick(w, [][]string{painful, painful, places})), kind(w.rnd.IntN(3))
	}
	w.settings = settings{
		claimLife: 30 * time.Second, maxPause: time.Minute, clockMargin: 10 * time.Second,
		leaseTTL: time.Minute, deliveryLease: pick(w, []time.Duration{30 * time.Second, 2 * time.Minute}),
	}
	w.drawBroker()
	w.drawProvider()
	skew := w.skew()
	w.rows = newRows(func() time.Time { return w.now.Add(skew) }, consumer)
	w.rows.caps.MaxBatch = pick(w, []int{1, 2, 500})
}

// skew is how far a clock lies off: within the margin that is allowed for two.
func (w *world) skew() time.Duration {
	return pick(w, []time.Duration{0, 0, -3 * time.Second, 3 * time.Second})
}

func (w *world) drawBroker() {
	caps := broker.Capabilities{
		FreePeek: true, ExactCounts: true, NativeQuarantine: true, StableMessageID: w.chance(0.6), SelectiveReceive: w.chance(0.5),
		Ordered: w.chance(0.2), MaxBatch: pick(w, []int{1, 3, 10}), MaxMessageBytes: 1 << 18, MaxLease: 12 * time.Hour,
	}
	if w.chance(0.2) {
		caps.DedupWindow = 5 * time.Minute
	}
	w.queues = newQueues(func() time.Time { return w.now }, caps, sourceName, deadName)
	w.queues.byApp = caps.StableMessageID && w.chance(0.6)
	w.queues.named[sourceName].deadLetter = deadName
	w.queues.named[sourceName].maxReceives = pick(w, []int{0, 4, 12})
}

func (w *world) drawProvider() {
	delay := pick(w, []time.Duration{time.Minute, 15 * time.Minute})
	if w.odds.race == "look up" { // what a worker sends meanwhile does not show yet
		delay = 15 * time.Minute
	}
	w.outside = outside{
		caps: provider.Capabilities{
			Name: "mail", KeyLife: pick(w, []time.Duration{0, time.Hour, time.Hour, 4 * time.Hour}), KeyMaxBytes: 255, Binds: w.chance(0.9),
			Delay: delay, LookBack: 14 * 24 * time.Hour,
			Proves: []provider.Proof{provider.ProvesAccepted, provider.ProvesNotAccepted, provider.ProvesRejected},
		},
		skew: w.skew(), lag: w.upTo(delay), hears: w.chance(0.5),
	}
	if w.chance(0.4) {
		from := epoch.Add(w.upTo(2 * time.Hour))
		w.outside.stalled = window{from, from.Add(w.between(20*time.Minute, 6*time.Hour))}
	}
	if w.chance(0.2) {
		from := epoch.Add(w.upTo(2 * time.Hour))
		w.outside.mute = window{from, from.Add(w.upTo(time.Hour))}
	}
}

// begin puts everybody in place, at once or behind an opening.
func (w *world) begin() {
	if w.opening < 0 {
		w.people()
		return
	}
	w.newProc("opening", 0, func(p *proc) {
		p.open()
		p.people()
	})
}

// people are the application and its workers at once, the operators once jobs
// have died, and who clears up when they are done.
func (w *world) people() {
	for range 1 + w.rnd.IntN(4) {
		w.enqueue(w.chance(0.2))
	}
	for i := range 1 + w.rnd.IntN(2) {
		w.newProc(fmt.Sprintf("worker-%d", i+1), 0, func(p *proc) { p.worker = true; p.work() })
	}
	w.newProc("application", 0, (*proc).produce)
	w.operators = 1 + w.rnd.IntN(2)
	for i := range w.operators {
		commands := 5 + w.rnd.IntN(8)
		w.newProc(fmt.Sprintf("operator-%d", i+1), w.between(2*time.Minute, 12*time.Minute), func(p *proc) { p.operate(commands) })
	}
	w.newProc("heal", time.Minute, (*proc).heal)
}

func (w *world) newProc(name string, after time.Duration, script func(*proc)) {
	p := w.start(name, w.skew(), after, script)
	p.last, p.unrecorded = epoch, map[string]bool{}
}

// produce sends further jobs now and then, as an application does.
func (p *proc) produce() {
	for range 1 + p.rnd.IntN(4) {
		p.wait(p.upTo(40 * time.Minute))
		if p.closing || p.broken != nil {
			return
		}
		p.enqueue(p.chance(0.2))
		p.rouse()
	}
}

// enqueue writes a job's row and publishes it, twice where a sender repeated
// itself.
func (w *world) enqueue(twice bool) {
	key := fmt.Sprintf("job-%d", len(w.jobs)+1)
	w.enqueueAs(key, secret+" for "+key, 1+bit(twice))
}

func (w *world) enqueueAs(key, text string, copies int) {
	payload := map[string]any{"text": text, "to": "x@" + secret}
	body, err := json.Marshal(map[string]any{
		"format": job.FormatOwn, "job_key": key, "customer": map[string]any{"id": secret + "-customer"}, "region": "r1", "payload": payload,
	})
	if err != nil {
		panic(err) // a map of strings
	}
	m := broker.Message{Body: body, Attributes: []broker.Attribute{{Name: messageIDAttribute, Type: "String", Value: []byte("id-" + key)}, {Name: "n", Type: "Number.int", Value: []byte("7")}}}
	if w.queues.caps.Ordered {
		m.OrderKey = pick(w, []string{"g1", "g2"})
	}
	w.jobs, w.made[key] = append(w.jobs, key), job.MessageHash(m)
	row := ledger.NewRow{
		Key: ledger.Key{JobKey: key, Consumer: consumer}, PayloadSHA256: decode(m).PayloadSHA256, Region: "r1", Account: "acme",
		CustomerID: secret + "-customer", Actor: "application",
	}
	if err := w.rows.insert(row, "", time.Time{}); err != nil {
		panic(err) // a key of its own
	}
	for range copies {
		w.queues.publish(sourceName, broker.Outgoing{Message: m, DedupID: "app-" + w.serial()})
	}
	w.say("application enqueues %s", key)
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
