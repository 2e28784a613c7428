package tui

// What the screen takes in from a desk is cleaned here, once, so that nothing is
// ever drawn that could move a cursor or break a line. An identity stays as it
// is, since the desk knows jobs by it; it is never drawn.

func tidyAll(ps ...*string) {
	for _, p := range ps {
		*p = tidy(*p)
	}
}

func (q *Queue) tidy() { tidyAll(&q.Broker, &q.Failed) }

func (l *Look) tidy() {
	tidyAll(&l.Broker, &l.Why)
	for i := range l.Classes {
		c := &l.Classes[i]
		tidyAll(&c.Name, &c.Disposition, &c.Effect, &c.Owner, &c.Runbook)
	}
	for i := range l.Jobs {
		j := &l.Jobs[i]
		j.ask = j.Name()
		tidyAll(&j.JobKey, &j.LedgerRow, &j.MessageID, &j.RequestID, &j.Class, &j.Effect, &j.Disposition, &j.Action,
			&j.Needs, &j.Reason, &j.Ledger, &j.Verdict, &j.Region, &j.Schema)
	}
}

func (s *Sheet) tidy() {
	for i := range s.Sections {
		tidyAll(&s.Sections[i].Title)
		tidyRows(s.Sections[i].Rows)
	}
	tidyAll(&s.Payload.Form, &s.Payload.Missing)
}

func (d *Draft) tidy() {
	tidyAll(&d.Tier, &d.Edit)
	tidyRows(d.Rows)
	for i := range d.Held {
		tidyAll(&d.Held[i].Why, &d.Held[i].Needs)
	}
}

func (p *Plan) tidy() {
	tidyAll(&p.Queue, &p.State, &p.Tier, &p.Requester, &p.Reason)
	tidyRows(p.Rows)
}

func (r *Run) tidy() {
	tidyAll(&r.Queue, &r.State)
	tidyRows(r.Rows)
}

func tidyRows(rows []Row) {
	for i := range rows {
		tidyAll(&rows[i].Name, &rows[i].Value)
	}
}

func (e *Entry) tidy() { tidyAll(&e.Clock, &e.Source, &e.What) }
