package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// memory is the operators' store: what internal/store keeps in SQLite, in memory.
// The records are real: sealed, chained and verified by package audit. A test has
// the real store do the same in the same moment, and compares all answers.
type memory struct {
	head     audit.Head
	log      []sealed
	plans    map[redrive.PlanID]*kept
	order    []redrive.PlanID
	says     map[redrive.PlanID][]redrive.Approval
	runs     map[redrive.RunID]*runRow
	started  []redrive.RunID
	leases   map[string]*leaseRow // by queue
	token    int64
	wishes   map[redrive.RunID]redrive.Wish
	verdicts map[string][]reconcile.Found // by job key
	seen     map[ledger.Key]reconcile.SeenRow
	archive  map[string]redrive.Archived // by run and copy
}

// sealed is a record in its place.
type sealed struct {
	audit.Record
	canonical []byte
	hash      string
}

type kept struct {
	redrive.StoredPlan
	key string // of its queue's lease
}

type runRow struct {
	redrive.RunRecord
	key string
}

type leaseRow struct {
	redrive.Lease
	key string
}

func newMemory() *memory {
	return &memory{
		head: audit.Head{Store: "sim"}, plans: map[redrive.PlanID]*kept{}, says: map[redrive.PlanID][]redrive.Approval{},
		runs: map[redrive.RunID]*runRow{}, leases: map[string]*leaseRow{}, wishes: map[redrive.RunID]redrive.Wish{},
		verdicts: map[string][]reconcile.Found{}, seen: map[ledger.Key]reconcile.SeenRow{}, archive: map[string]redrive.Archived{},
	}
}

// append puts records behind the chain's head: all of them or none.
func (m *memory) append(now time.Time, rs ...audit.Record) error {
	head, made := m.head, make([]sealed, 0, len(rs))
	for _, r := range rs {
		r.Time = now
		canonical, next, err := audit.Seal(r, head)
		if err != nil {
			return fmt.Errorf("%w: %w", audit.ErrNotWritable, err)
		}
		r.Seq, r.Store, r.Previous = next.Seq, head.Store, orElse(head.Hash, audit.Genesis)
		head, made = next, append(made, sealed{r, canonical, next.Hash})
	}
	m.head, m.log = head, append(m.log, made...)
	return nil
}

// mark appends rec and a checkpoint on its behalf.
func (m *memory) mark(now time.Time, rec audit.Record) error {
	if err := m.append(now, rec); err != nil {
		return err
	}
	return m.append(now, audit.CheckpointRecord(m.head, rec))
}

// verify holds the whole log to the chain.
func (m *memory) verify() audit.Report {
	v := audit.NewVerifier(m.head.Store, audit.Head{}, m.head)
	for _, r := range m.log {
		v.Row(audit.Row{Seq: r.Seq, Canonical: r.canonical, Hash: r.hash})
	}
	return v.Report()
}

func leaseKey(p redrive.Terms) string { return p.Broker + ":" + p.Entity }

// state is where a plan stands at a moment.
func (k *kept) state(now time.Time) redrive.PlanState {
	if k.State.Open() && !now.Before(k.Plan.ExpiresAt) {
		return redrive.PlanExpired
	}
	return k.State
}

func (m *memory) plan(prefix string, now time.Time) (redrive.StoredPlan, error) {
	for _, id := range m.order {
		if strings.HasPrefix(string(id), prefix) && prefix != "" {
			p := m.plans[id].StoredPlan
			p.State = m.plans[id].state(now)
			return p, nil
		}
	}
	return redrive.StoredPlan{}, fmt.Errorf("plan %q: %w", prefix, redrive.ErrNotFound)
}

func (m *memory) savePlan(id redrive.PlanID, canonical []byte, p redrive.Plan, now time.Time, rec audit.Record) error {
	if audit.Hash(canonical) != string(id) || m.plans[id] != nil {
		return redrive.ErrChanged
	}
	for _, o := range m.order {
		for _, theirs := range m.plans[o].Plan.Items {
			for _, it := range p.Items {
				same := it.Copy == theirs.Copy || it.JobKey != "" && it.JobKey == theirs.JobKey && it.Consumer == theirs.Consumer
				if same && m.plans[o].state(now).Live() {
					return &redrive.InPlanError{Job: orElse(it.JobKey, it.Copy.String()), Plan: o}
				}
			}
		}
	}
	k := &kept{redrive.StoredPlan{ID: id, Bytes: canonical, State: redrive.PlanWaiting}, leaseKey(p.Terms)}
	if p.Tier.Needed() == 0 {
		k.State = redrive.PlanApproved
	}
	if err := k.Read(); err != nil {
		return err
	}
	m.plans[id], m.order = k, append(m.order, id)
	rec.Plan = string(id)
	return m.append(now, rec)
}

func (m *memory) setPlanState(id redrive.PlanID, from, to redrive.PlanState, now time.Time, rec audit.Record) error {
	k := m.plans[id]
	if k == nil || k.state(now) != from {
		return fmt.Errorf("plan %s is not %s: %w", id, from, redrive.ErrRefused)
	}
	k.State = to
	rec.Plan = string(id)
	return m.append(now, rec)
}

func (m *memory) saveApproval(a redrive.Approval, now time.Time, rec audit.Record) error {
	statement, err := redrive.CanonicalStatement(a)
	if err != nil {
		return err
	}
	rec.Plan, rec.Action, rec.Phase = string(a.Plan), a.Decision, audit.Outcome
	details := map[string]string{audit.DetailStatement: audit.Hash(statement)}
	for k, v := range rec.Details {
		details[k] = v
	}
	rec.Details = details
	m.says[a.Plan] = append(m.says[a.Plan], a)
	return m.append(now, rec)
}

func (m *memory) inLive(queue string, now time.Time) map[string]redrive.PlanID {
	in := map[string]redrive.PlanID{}
	for _, id := range m.order {
		k := m.plans[id]
		if k.Plan.Queue != queue || !k.state(now).Live() {
			continue
		}
		for _, it := range k.Plan.Items {
			in[it.Copy.String()] = id
			if it.JobKey != "" {
				in[it.JobKey] = id
			}
		}
	}
	return in
}

func (m *memory) selfRedrives(queue string, since, now time.Time) (n int) {
	for _, id := range m.order {
		k := m.plans[id]
		s := k.state(now)
		if k.Plan.Queue != queue || k.Plan.Tier != redrive.TierSelf || k.Plan.CreatedAt.Before(since) || s != redrive.PlanFinished && !s.Live() {
			continue
		}
		for _, it := range k.Plan.Items {
			if it.Action == reconcile.Redrive {
				n++
			}
		}
	}
	return n
}

// mayBeOut reports that the record tells of a publish that happened, or may have.
func (m *memory) mayBeOut(r sealed) bool {
	switch {
	case r.Action != audit.ActionRedrive:
		return false
	case r.Phase == audit.Outcome:
		return r.Step == audit.StepPublish && (r.Result == audit.ResultDone || r.Result == audit.ResultUnknown)
	}
	return !slices.ContainsFunc(m.log, func(c sealed) bool {
		return c.Run == r.Run && c.Run != "" && c.CopyID == r.CopyID && c.Seq > r.Seq && c.Phase == audit.Outcome &&
			(c.Step == audit.StepClose || c.Step == audit.StepAck && c.Result == audit.ResultDone)
	})
}

// itemOf is the plan's item that a record speaks of.
func (m *memory) itemOf(r sealed) *redrive.Item {
	k := m.plans[redrive.PlanID(r.Plan)]
	if k == nil {
		return nil
	}
	for i := range k.Plan.Items {
		if k.Plan.Items[i].Copy.String() == r.CopyID {
			return &k.Plan.Items[i]
		}
	}
	return nil
}

// sameJob reports that the record is about a job without a key that is one with
// the identity.
func (m *memory) sameJob(r sealed, id redrive.Identity) bool {
	if id.JobKey != "" {
		return r.JobKey == id.JobKey
	}
	it := m.itemOf(r)
	return it != nil && it.JobKey == "" && it.PayloadSHA256 == id.PayloadSHA256 &&
		(it.Origin == id.Origin || it.Copy.Entity == id.Entity && (it.Origin == "" || id.Origin == ""))
}

func (m *memory) publishedOf(id redrive.Identity, except redrive.RunID) redrive.Published {
	var p redrive.Published
	name := orElse(id.JobKey, redrive.PayloadIdentity(id.PayloadSHA256))
	at := map[string]int{}
	for _, r := range m.log {
		about := m.sameJob(r, id) || r.Details[audit.DetailReplacedBy] == name
		if !about || r.Run == string(except) || !m.mayBeOut(r) {
			continue
		}
		if _, again := at[r.Run+r.CopyID]; !again {
			at[r.Run+r.CopyID] = p.Count
			p.Count++
			p.Copies = append(p.Copies, splitCopy(r.CopyID))
			p.RolledBack += bit(m.backed(r))
		}
		if r.Phase == audit.Outcome && id.LedgerRow != "" && r.LedgerRow == id.LedgerRow && r.Attempt != nil {
			p.Attempt = max(p.Attempt, *r.Attempt)
		}
		p.Last, p.LastRun = r.Time, redrive.RunID(r.Run)
	}
	return p
}

// backed reports that a rollback took the record's job back in its run.
func (m *memory) backed(r sealed) bool {
	return r.JobKey != "" && slices.ContainsFunc(m.log, func(b sealed) bool {
		return b.JobKey == r.JobKey && b.Run == r.Run && b.Action == redrive.ActionRollback && b.Phase == audit.Outcome && b.Result == audit.ResultDone
	})
}

func splitCopy(name string) broker.CopyID {
	n := strings.LastIndexByte(name, '/')
	return broker.CopyID{Entity: name[:max(n, 0)], ID: name[n+1:]}
}

func (m *memory) replacedOf(id redrive.Identity, except redrive.RunID) string {
	for _, r := range slices.Backward(m.log) {
		if by := r.Details[audit.DetailReplacedBy]; by != "" && r.Run != string(except) && m.sameJob(r, id) && m.mayBeOut(r) {
			return by
		}
	}
	return ""
}

func (m *memory) approvedDigests() map[string]bool {
	digests := map[string]bool{}
	for _, id := range m.order {
		p, yes := m.plans[id].Plan, false
		for _, a := range m.says[id] {
			if a.Decision != redrive.DecisionApprove {
				yes = false
				break
			}
			yes = yes || a.Approver != p.Requester
		}
		if yes {
			digests[p.PolicySHA256], digests[p.SettingsSHA256] = true, true
		}
	}
	return digests
}

// older reports that nothing newer was seen of the row.
func (m *memory) remember(rs []ledger.Row) {
	for _, r := range rs {
		s, ok := m.seen[r.Key]
		if !ok || r.UpdatedAt.After(s.UpdatedAt) || r.UpdatedAt.Equal(s.UpdatedAt) && r.Attempt >= s.Attempt {
			m.seen[r.Key] = reconcile.SeenRow{State: r.State, Attempt: r.Attempt, UpdatedAt: r.UpdatedAt}
		}
	}
}

func (m *memory) latestVerdict(jobKey string) (reconcile.Found, bool) {
	var best reconcile.Found
	for i, f := range m.verdicts[jobKey] {
		if i == 0 || !f.At.Before(best.At) {
			best = f
		}
	}
	return best, len(m.verdicts[jobKey]) > 0
}
