package tui

import (
	"context"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/redrivectl/redrivectl/internal/term"
)

// jobPane answers what was intended, what was attempted and why it stopped, and
// shows what else is known of one job.
type jobPane struct {
	queue   string
	job     Job
	content Content // as asked for last
	sheet   Sheet
	known   bool
	time    bool    // the time line is shown
	entries []Entry // of it
	asking  bool
	pager
	payload int  // the line at which it begins
	jump    bool // it is to be shown, since it was asked for
}

func newJobPane(queue string, j Job) *jobPane { return &jobPane{queue: queue, job: j} }

func (p *jobPane) name() string  { return paneJob }
func (p *jobPane) title() string { return p.job.Name() }

func (p *jobPane) status(*Screen) string {
	what := "all that is known"
	if p.time {
		what = "time line"
	}
	if p.asking {
		what += ", being asked for"
	}
	if p.sheet.Payload.Revealed {
		what += "; secrets are shown"
	}
	return what + "; " + p.job.Class + ", " + p.job.Action
}

// shown is the job as it was asked for.
type shown struct {
	pane  *jobPane
	sheet Sheet
	err   error
}

// lined is the job's time line.
type lined struct {
	pane    *jobPane
	entries []Entry
	err     error
}

// request asks for the job, with its payload in some form.
func (p *jobPane) request(s *Screen, c Content) tea.Cmd {
	p.content, p.asking = c, true
	queue, id := p.queue, p.job.ID
	return s.run(func(ctx context.Context) tea.Msg {
		sheet, err := s.desk.Show(ctx, queue, id, c)
		sheet.tidy()
		return shown{p, sheet, err}
	})
}

func (p *jobPane) line(s *Screen) tea.Cmd {
	p.asking = true
	queue, id := p.queue, p.job.ID
	return s.run(func(ctx context.Context) tea.Msg {
		es, err := s.desk.Timeline(ctx, queue, id)
		for i := range es {
			es[i].tidy()
		}
		return lined{p, es, err}
	})
}

func (p *jobPane) told(s *Screen, msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case shown:
		if msg.pane == p {
			p.take(s, msg.err, func() { p.sheet, p.known = msg.sheet, true })
		}
	case lined:
		if msg.pane == p {
			p.take(s, msg.err, func() { p.entries, p.time, p.top = msg.entries, true, 0 })
		}
	}
	return nil
}

func (p *jobPane) take(s *Screen, err error, keep func()) {
	p.asking = false
	p.forget()
	if err != nil {
		s.fail(err)
		return
	}
	keep()
}

func (p *jobPane) key(s *Screen, msg tea.KeyMsg) tea.Cmd {
	switch {
	case p.move(msg):
		p.jump = false
	case keys.Timeline.is(msg) && p.time:
		p.time, p.top = false, 0
		p.forget()
	case keys.Timeline.is(msg):
		p.jump = false
		return p.line(s)
	case keys.Form.is(msg):
		p.jump = true
		return p.request(s, Content{Form: after(p.sheet.Payload.Form)})
	case keys.Fetch.is(msg):
		return p.fetch(s)
	case keys.Reveal.is(msg):
		s.ask("why the secrets are needed, for the audit log:", "", func(reason string) (tea.Cmd, error) {
			return p.reveal(s, reason)
		})
	}
	return nil
}

// after is the form that follows one.
func after(form string) string {
	switch form {
	case "json":
		return "text"
	case "text":
		return "hex"
	default:
		return "json"
	}
}

func (p *jobPane) reveal(s *Screen, reason string) (tea.Cmd, error) {
	if reason == "" {
		return nil, errNoReason
	}
	s.input = nil
	return s.confirm("Show the secrets of "+cutMiddle(p.job.Name(), 80)+"? That you did, and why, is recorded in the audit log first.", func() tea.Cmd {
		c := p.content
		c.Reveal, c.Reason = true, reason
		p.jump = true
		return p.request(s, c)
	}), nil
}

// fetch looks at the queue again for a payload that was not kept. Where that
// counts as a receive, it asks first.
func (p *jobPane) fetch(s *Screen) tea.Cmd {
	c := p.content
	c.LookAgain, p.jump = true, true
	b := s.book(p.queue)
	if !b.look.LookCounts && !b.queue.LookCounts {
		return p.request(s, c)
	}
	return s.confirm("Look at "+tidy(p.queue)+" again for the payload? It counts as a receive of the messages that are looked at.", func() tea.Cmd {
		return p.request(s, c)
	})
}

func (p *jobPane) view(s *Screen, w, h int) []string {
	lines := p.lay(w, func() []string { return p.rows(s, w) })
	if p.jump && !p.asking && !p.time {
		p.top, p.jump = p.payload, false
	}
	return p.show(lines, h)
}

// rows writes out all lines of what is shown.
func (p *jobPane) rows(s *Screen, w int) []string {
	switch {
	case p.time:
		return p.layTime(w)
	case !p.known:
		return []string{"", pad("  "+oneMoment, w)}
	}
	var lines []string
	for _, sec := range p.sheet.Sections {
		lines = append(lines, s.styles.head.Render(pad(sec.Title, w)))
		for _, r := range sec.Rows {
			lines = append(lines, layRow(r, rowName, w)...)
		}
		lines = append(lines, "")
	}
	p.payload = len(lines)
	return append(lines, p.layPayload(s, w)...)
}

const rowName = 20 // columns of what a row is called: a moment, at most

// layRow writes out a row with its name in so many columns.
func layRow(r Row, names, w int) []string {
	room := max(w-names-4, 10)
	lines := wrapped(r.Value, room)
	for i := range lines {
		name := ""
		if i == 0 {
			name = r.Name
		}
		lines[i] = pad("  "+pad(name, names)+"  "+lines[i], w)
	}
	return lines
}

func (p *jobPane) layPayload(s *Screen, w int) []string {
	c := p.sheet.Payload
	head := "payload, " + term.Bytes(int64(c.Bytes)) + ", " + or(c.Form)
	switch {
	case c.Revealed:
		head += ", secrets shown"
	case c.Masked:
		head += ", secrets masked"
	}
	lines := []string{s.styles.head.Render(pad(head, w))}
	if c.Missing != "" {
		return append(lines, pad("  "+c.Missing, w))
	}
	for line := range strings.Lines(c.Text) {
		for _, part := range wrapped(term.Clean(strings.TrimRight(line, "\n")), w-2) {
			lines = append(lines, "  "+pad(part, w-2))
		}
	}
	if c.Cut {
		lines = append(lines, pad("  (cut; redrivectl export has all of it)", w))
	}
	return lines
}

func (p *jobPane) layTime(w int) []string {
	lines := []string{}
	for _, e := range p.entries {
		at := e.At.UTC().Format(time.DateTime)
		lines = append(lines, layEntry(at, e.Source+" ("+e.Clock+")", e.What, w)...)
	}
	if len(lines) == 0 {
		lines = append(lines, pad("  nothing is known", w))
	}
	return lines
}

func layEntry(at, source, what string, w int) []string {
	const front = 2 + 19 + 2 + 22 + 2
	lines := wrapped(what, max(w-front, 10))
	for i := range lines {
		if i > 0 {
			at, source = "", ""
		}
		lines[i] = pad("  "+pad(at, 19)+"  "+pad(source, 22)+"  "+lines[i], w)
	}
	return lines
}
