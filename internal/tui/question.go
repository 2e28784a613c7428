package tui

import (
	"context"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// proposal is an act whose question is being prepared. Until it can be read no key is
// taken but those that leave it: what is typed ahead must answer nothing.
type proposal struct {
	act  Act
	then func(*doing) tea.Cmd
	end  context.CancelFunc
}

// asked is the question about an act, in the engine's words.
type asked struct {
	of   *proposal
	text string
	err  error
}

// propose asks the engine what an act would ask, and then the person. then is
// called when the act has begun; nil: nothing follows.
func (s *Screen) propose(act Act, then func(*doing) tea.Cmd) tea.Cmd {
	ctx, end := context.WithCancel(s.ctx)
	p := &proposal{act, then, end}
	s.proposal = p
	return s.run(func(context.Context) tea.Msg {
		defer end()
		text, err := s.desk.Question(ctx, act)
		return asked{p, text, err}
	})
}

// withdraw leaves a question that is being prepared.
func (s *Screen) withdraw() {
	if s.proposal != nil {
		s.proposal.end()
		s.proposal = nil
	}
}

// proposed takes the keys while a question is being prepared.
func (s *Screen) proposed(msg tea.KeyMsg) {
	if keys.Cancel.is(msg) {
		s.withdraw()
		s.say("left before it was asked; nothing was changed")
	}
}

// put asks the question, unless its proposal was left meanwhile.
func (s *Screen) put(msg asked) tea.Cmd {
	p := msg.of
	if p != s.proposal {
		return nil
	}
	s.withdraw()
	if msg.err != nil {
		s.fail(msg.err)
		return nil
	}
	act := p.act
	act.Agreed = msg.text
	return s.confirm(tidy(msg.text), func() tea.Cmd { return s.begin(act, p.then) })
}

// question waits for a yes or a no. Every key that changes something asks one
// first, in words that say what will be done.
type question struct {
	text string
	yes  func() tea.Cmd
	open bool // it has been on the screen for long enough to be read
}

// beforeAnswer is how long a question is on the screen before it takes an answer. No
// one answers faster who has seen it: what comes earlier was typed before.
const beforeAnswer = 250 * time.Millisecond

// drawn says that a question may be answered.
type drawn struct{ of *question }

// longestQuestion is how many columns a question has at most, so that 80 by 24 shows
// all of it. Its ends say what would be done; a text from outside, such as a reason,
// is between them.
const longestQuestion = 960

// confirm asks before something is done.
func (s *Screen) confirm(text string, yes func() tea.Cmd) tea.Cmd {
	s.withdraw()
	s.note = note{}
	q := &question{text: cutMiddle(text, longestQuestion), yes: yes}
	s.question = q
	return s.later(beforeAnswer, drawn{q})
}

func (s *Screen) answer(msg tea.KeyMsg) tea.Cmd {
	q := s.question
	switch {
	case !q.open:
	case keys.Yes.is(msg):
		s.question = nil
		return q.yes()
	case keys.No.is(msg):
		s.question = nil
		s.say("not confirmed; nothing was changed")
	}
	return nil
}

func (q *question) lines(s *Screen) []string {
	text := q.text
	if q.open {
		text += " [y/n]"
	}
	lines := wrappedLines(text, s.width)
	for i := range lines {
		lines[i] = s.styles.warn.Render(lines[i])
	}
	return lines
}
