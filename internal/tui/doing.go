package tui

import (
	"context"

	tea "github.com/charmbracelet/bubbletea"
)

// doing is an act that is under way, or was.
type doing struct {
	act      Act
	step     Step
	news     []string // what was told on the way, oldest first
	verdicts []Verdict
	found    map[string]int // how many there are of each verdict
	over     bool
	done     Done
	err      string
}

// runs reports that a run is carried out by this.
func (d *doing) runs() bool {
	return d.act.Do == DoRun || d.act.Do == DoResume || d.act.Do == DoPromote
}

// moved tells how far an act has come; ended, how it ended.
type (
	moved struct {
		of   *doing
		step Step
	}
	ended struct {
		of   *doing
		done Done
		err  error
	}
)

func (s *Screen) begin(act Act, then func(*doing) tea.Cmd) tea.Cmd {
	d := &doing{act: act, step: Step{What: string(act.Do)}, found: map[string]int{}}
	s.acts = append(s.acts, d)
	tell := s.throttled(func(p Step) tea.Msg { return moved{d, p} })
	cmds := []tea.Cmd{s.run(func(ctx context.Context) tea.Msg {
		done, err := s.desk.Do(ctx, act, tell)
		tidyRows(done.Rows)
		return ended{d, done, err}
	})}
	if then != nil {
		cmds = append(cmds, then(d))
	}
	return tea.Batch(cmds...)
}

// mostNews is how many lines of an act are kept.
const mostNews = 200

// heard keeps what an act tells.
func (s *Screen) heard(msg moved) {
	d := msg.of
	switch {
	case msg.step.Note != "":
		d.news = append(d.news, tidy(msg.step.Note))
		d.news = d.news[max(len(d.news)-mostNews, 0):]
		s.say(tidy(msg.step.Note))
	case msg.step.Verdicts != nil:
		for _, v := range msg.step.Verdicts {
			tidyAll(&v.JobKey, &v.Verdict, &v.Because)
			d.verdicts = append(d.verdicts, v)
			d.found[v.Verdict]++
		}
	default:
		d.step = msg.step
	}
}

// finished keeps how an act ended, and has the jobs told as they stand now.
func (s *Screen) finished(msg ended) tea.Cmd {
	d := msg.of
	d.over, d.done = true, msg.done
	if msg.err != nil {
		d.err = why(msg.err)
		s.fail(msg.err)
	} else {
		s.say(string(d.act.Do) + ": done")
	}
	switch {
	case d.act.Do == DoCreate && msg.done.Plan != "":
		return s.frozen(d)
	case d.act.Do == DoReconcile:
		return s.assess(d.act.On)
	case d.runs():
		return s.after()
	}
	return nil
}

// after a run the queues that are shown hold something else. They are looked at
// again where that leaves no trace; elsewhere their jobs are told as they stand now.
func (s *Screen) after() tea.Cmd {
	var cmds []tea.Cmd
	for _, p := range s.panes {
		c, ok := p.(*classesPane)
		switch {
		case !ok || !s.book(c.queue).looked:
		case s.book(c.queue).look.LookCounts:
			cmds = append(cmds, s.assess(c.queue))
		default:
			cmds = append(cmds, s.look(c.queue))
		}
	}
	return tea.Batch(cmds...)
}

// assess has the last look at a queue told again.
func (s *Screen) assess(queue string) tea.Cmd {
	return s.run(func(ctx context.Context) tea.Msg {
		l, err := s.desk.Assess(ctx, queue)
		l.tidy()
		return looked{queue, l, l.places(), err}
	})
}

// busy is the run that is carried out here now; nil: none.
func (s *Screen) busy() *doing {
	for _, d := range s.acts {
		if d.runs() && !d.over {
			return d
		}
	}
	return nil
}

// whatLeavingDoes is said before the run here is left.
const whatLeavingDoes = "A run is carried out here. It would finish its batch in flight and end as interrupted, with nothing held; redrivectl resume goes on with it. "

// leave quits, once the person knows what that does to a run.
func (s *Screen) leave() tea.Cmd {
	if s.busy() == nil {
		return tea.Quit
	}
	return s.confirm(whatLeavingDoes+"Leave?", func() tea.Cmd { return tea.Quit })
}

// stop suspends, once the person knows what that does to a run. A question that is
// being prepared is left.
func (s *Screen) stop() tea.Cmd {
	s.withdraw()
	if s.busy() == nil {
		return s.suspend()
	}
	return s.confirm(whatLeavingDoes+"Suspend?", s.suspend)
}
