package tui

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// book is what the screen knows of one queue.
type book struct {
	queue Queue // as described last
	known bool  // it was described

	look   Look
	looked bool
	index  map[string]int // Job.ID to its place in look.Jobs
	first  map[string]int // how many jobs each class had at the first look

	marks   map[string]bool // Job.ID of the jobs that are marked
	classes map[string]bool // names of the classes that are marked

	busy  bool // a look is under way
	tried time.Time
	step  Step
	err   string // why the last look failed
}

func (s *Screen) book(queue string) *book {
	b := s.books[queue]
	if b == nil {
		b = &book{marks: map[string]bool{}, classes: map[string]bool{}}
		s.books[queue] = b
	}
	return b
}

// described is what the brokers say of the queues.
type described struct {
	queues []Queue
	err    error
}

func (s *Screen) describe() tea.Cmd {
	return s.run(func(ctx context.Context) tea.Msg {
		qs, err := s.desk.Queues(ctx)
		for i := range qs {
			qs[i].tidy()
		}
		return described{qs, err}
	})
}

// looked is what a look found.
type looked struct {
	queue string
	look  Look
	index map[string]int
	err   error
}

// stepped tells how far a look has come.
type stepped struct {
	queue string
	step  Step
}

// look begins a look at a queue, unless one is under way.
func (s *Screen) look(queue string) tea.Cmd {
	b := s.book(queue)
	if b.busy {
		return nil
	}
	b.busy, b.tried, b.step = true, s.now(), Step{What: "looking at " + queue}
	tell := s.throttled(func(p Step) tea.Msg { return stepped{queue, p} })
	return s.run(func(ctx context.Context) tea.Msg {
		l, err := s.desk.Look(ctx, queue, tell)
		l.tidy()
		return looked{queue, l, l.places(), err}
	})
}

// throttled passes on what is told, at most ten times a second.
func (s *Screen) throttled(msg func(Step) tea.Msg) Tell {
	const every = 100 * time.Millisecond
	var last time.Time
	var mu sync.Mutex
	return func(p Step) {
		mu.Lock()
		defer mu.Unlock()
		if now := s.now(); p.Note != "" || p.Verdicts != nil || now.Sub(last) >= every {
			last = now
			s.send(msg(p))
		}
	}
}

// keep takes what has come into the books.
func (s *Screen) keep(msg tea.Msg) {
	switch msg := msg.(type) {
	case described:
		if msg.err != nil {
			s.fail(msg.err)
			return
		}
		for _, q := range msg.queues {
			b := s.book(q.Name)
			b.queue, b.known = q, true
		}
	case stepped:
		if msg.step.Note != "" {
			s.say(tidy(msg.step.Note))
		} else {
			s.book(msg.queue).step = msg.step
		}
	case looked:
		s.book(msg.queue).take(msg)
		if msg.err != nil {
			s.fail(msg.err)
		}
	}
}

// take keeps a look. One that failed leaves the one before in place.
func (b *book) take(msg looked) {
	b.busy = false
	if msg.err != nil {
		b.err = why(msg.err)
		return
	}
	b.err, b.look, b.index = "", msg.look, msg.index
	for id := range b.marks {
		if _, there := b.index[id]; !there {
			delete(b.marks, id)
		}
	}
	if !b.looked {
		b.looked, b.first = true, map[string]int{}
		for _, c := range b.look.Classes {
			b.first[c.Name] = c.Count
		}
	}
}

// due begins the looks whose time has come, of the queues that are shown.
func (s *Screen) due() tea.Cmd {
	var cmds []tea.Cmd
	for _, p := range s.panes {
		c, ok := p.(*classesPane)
		if !ok {
			continue
		}
		b := s.book(c.queue)
		every := s.options.Every
		if b.look.LookCounts {
			every = s.options.EveryCounted
		}
		if b.looked && every > 0 && s.now().Sub(b.tried) >= every {
			cmds = append(cmds, s.look(c.queue))
		}
	}
	return tea.Batch(cmds...)
}

// trend is how much more there is of a class than when the screen opened.
func (b *book) trend(class string, count int) int { return count - b.first[class] }

// gone are the classes that the first look had and this one has not.
func (b *book) gone() []Class {
	var gone []Class
	for name := range b.first {
		if !slices.ContainsFunc(b.look.Classes, func(c Class) bool { return c.Name == name }) {
			gone = append(gone, Class{Name: name})
		}
	}
	slices.SortFunc(gone, func(x, y Class) int { return strings.Compare(x.Name, y.Name) })
	return gone
}

// status says what the queue holds and when that was looked at.
func (b *book) status(now time.Time) string {
	switch {
	case !b.looked && b.err != "":
		return "the look failed: " + b.err
	case !b.looked:
		return "looking for the first time"
	}
	l := b.look
	counted := "approximate"
	if l.Exact {
		counted = "exact"
	}
	text := plural(int(l.Total), "job") + " (" + counted + "), looked at " + l.At.UTC().Format(time.TimeOnly) + "Z, " + age(now, l.At) + " ago"
	if l.LookCounts {
		text += "; that counted as a receive"
	}
	if !l.Complete {
		text += "; incomplete: " + l.Why
	}
	return text
}

// places maps each job's ID to its place.
func (l *Look) places() map[string]int {
	m := make(map[string]int, len(l.Jobs))
	for i := range l.Jobs {
		m[l.Jobs[i].ID] = i
	}
	return m
}
