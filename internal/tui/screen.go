package tui

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/redrivectl/redrivectl/internal/term"
)

// pane is one thing that the screen shows, as large as the screen lets it be.
type pane interface {
	name() string  // one of the names of the panes, for its keys
	title() string // where the person is: a part of the head line, cleaned
	// key takes a key that the screen has no use for itself.
	key(s *Screen, msg tea.KeyMsg) tea.Cmd
	// told takes everything that is no key: what was asked for has come, or the
	// look that it stands on is another one now.
	told(s *Screen, msg tea.Msg) tea.Cmd
	// status is the line below the head; view is the rest, h lines.
	status(s *Screen) string
	view(s *Screen, w, h int) []string
}

// Screen is the state of the triage screen.
type Screen struct {
	desk    Desk
	options Options
	styles  styles
	parent  context.Context //nolint:containedctx // The screen's own life, which commands of bubbletea are not given.
	ctx     context.Context //nolint:containedctx // The same until the next suspension.
	end     context.CancelFunc
	under   *works
	send    func(tea.Msg)

	width, height int
	panes         []pane // the last one is shown
	books         map[string]*book
	help          *pager    // of the keys of the pane; nil: they are not shown
	input         *input    // a line being typed; nil: none
	proposal      *proposal // whose question is being prepared; nil: none
	question      *question // that waits for an answer; nil: none
	note          note
	acts          []*doing // under way, or done since the screen opened
}

// note is one line of news, until the next key.
type note struct {
	text string
	bad  bool
}

func newScreen(ctx context.Context, d Desk, o Options) *Screen {
	s := &Screen{desk: d, options: o, styles: newStyles(o.Output, o.Color), parent: ctx, under: newWorks(), width: cmp.Or(o.Width, 80), height: cmp.Or(o.Height, 24), books: map[string]*book{}}
	s.ctx, s.end = context.WithCancel(ctx)
	s.panes = []pane{newQueuesPane()}
	if o.Queue != "" {
		s.panes = append(s.panes, newClassesPane(o.Queue))
	}
	return s
}

// close ends what is under way and waits for it.
func (s *Screen) close() {
	s.end()
	s.under.finish()
}

// run makes a command of something that asks the desk. close waits for it.
func (s *Screen) run(ask func(ctx context.Context) tea.Msg) tea.Cmd {
	ctx := s.ctx
	return func() tea.Msg {
		if !s.under.begin() {
			return nil
		}
		defer s.under.done()
		return ask(ctx)
	}
}

// Init asks for what is shown first.
func (s *Screen) Init() tea.Cmd {
	cmds := []tea.Cmd{s.describe(), s.clock()}
	if s.options.Queue != "" {
		cmds = append(cmds, s.look(s.options.Queue))
	}
	return tea.Batch(cmds...)
}

// ticked moves what is told of time, and begins the looks that are due.
type ticked struct{}

const tick = time.Second

func (s *Screen) clock() tea.Cmd { return s.later(tick, ticked{}) }

// later tells the screen something after a while.
func (s *Screen) later(after time.Duration, msg tea.Msg) tea.Cmd {
	if s.options.later != nil {
		return s.options.later(after, msg)
	}
	return tea.Tick(after, func(time.Time) tea.Msg { return msg })
}

func (s *Screen) top() pane { return s.panes[len(s.panes)-1] }

func (s *Screen) push(p pane) { s.panes = append(s.panes, p) }

// update takes one message and gives the command that follows from it.
func (s *Screen) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
		return nil
	case tea.KeyMsg:
		return s.key(msg)
	case ticked:
		cmds := []tea.Cmd{s.due(), s.clock()}
		if w, ok := s.top().(watching); ok {
			cmds = append(cmds, w.again(s))
		}
		return tea.Batch(cmds...)
	case suspended:
		return tea.Suspend
	case tea.ResumeMsg:
		s.ctx, s.end = context.WithCancel(s.parent)
		s.say("back again; what was being looked at was given back before")
		return s.describe()
	default:
		return s.told(msg)
	}
}

// told keeps what has come and hands it to the panes, also to those beneath.
func (s *Screen) told(msg tea.Msg) tea.Cmd {
	s.keep(msg)
	cmds := []tea.Cmd{}
	switch msg := msg.(type) {
	case asked:
		cmds = append(cmds, s.put(msg))
	case drawn:
		msg.of.open = true
	case moved:
		s.heard(msg)
	case ended:
		cmds = append(cmds, s.finished(msg))
	}
	for _, p := range s.panes {
		cmds = append(cmds, p.told(s, msg))
	}
	return tea.Batch(cmds...)
}

func (s *Screen) key(msg tea.KeyMsg) tea.Cmd {
	s.note = note{}
	switch {
	case keys.Suspend.is(msg):
		return s.stop()
	case s.small():
		return s.unseen(msg)
	case s.help != nil:
		if !s.help.move(msg) {
			s.help = nil
		}
		return nil
	case s.question != nil:
		return s.answer(msg)
	case s.proposal != nil:
		s.proposed(msg)
		return nil
	case s.input != nil:
		return s.typed(msg)
	case keys.Help.is(msg):
		s.help = &pager{}
		return nil
	case keys.Quit.is(msg):
		return s.leave()
	case keys.Back.is(msg):
		s.back()
		return nil
	case keys.Plans.is(msg):
		return openList(s, plansList)
	case keys.Runs.is(msg):
		return openList(s, runsList)
	default:
		return s.top().key(s, msg)
	}
}

func (s *Screen) back() {
	if len(s.panes) > 1 {
		s.panes = s.panes[:len(s.panes)-1]
	}
}

// suspended says that nothing is under way any more.
type suspended struct{}

// suspend ends what is under way before the process stops, since a stopped
// process could neither renew nor give back what it holds. Until it goes on whatever
// is asked is given up at once.
func (s *Screen) suspend() tea.Cmd {
	s.end()
	return func() tea.Msg {
		s.under.wait()
		return suspended{}
	}
}

// unseen takes the keys while nothing can be shown: those that change nothing.
func (s *Screen) unseen(msg tea.KeyMsg) tea.Cmd {
	switch {
	case s.question != nil && !keys.Yes.is(msg):
		return s.answer(msg)
	case s.question == nil && keys.Quit.is(msg):
		return s.leave()
	}
	return nil
}

func (s *Screen) say(text string) { s.note = note{text: text} }
func (s *Screen) fail(err error)  { s.note = note{text: why(err), bad: true} }
func (s *Screen) now() time.Time  { return s.options.Now() }

// small reports that the terminal cannot show what matters: the whole of a question
// does, since it says what would be done.
func (s *Screen) small() bool {
	return s.width < 40 || s.height < 8 || s.question != nil && len(s.question.lines(s)) > s.mostFoot()-1
}

// mostFoot is how many lines below the pane leave it two of its own.
func (s *Screen) mostFoot() int { return s.height - 5 }

func (s *Screen) crumbs() string {
	names := make([]string, len(s.panes))
	for i, p := range s.panes {
		names[i] = p.title()
	}
	return strings.Join(names, " › ")
}

// View draws the whole screen.
func (s *Screen) View() string {
	if s.small() {
		return cut("make this terminal larger", s.width) + strings.Repeat("\n", max(s.height-1, 0))
	}
	foot := s.foot()
	if most := s.mostFoot(); len(foot) > most { // the end of it says what is asked
		foot = foot[len(foot)-most:]
	}
	lines := []string{s.styles.title.Render(pad(cutFront("redrivectl triage  "+s.crumbs(), s.width), s.width))}
	for _, l := range fewLines(s.top().status(s), s.width, 2) {
		lines = append(lines, s.styles.faint.Render(l))
	}
	h := s.height - len(lines) - len(foot)
	if s.help != nil {
		lines = append(lines, s.helpLines(s.width, h)...)
	} else {
		lines = append(lines, s.top().view(s, s.width, h)...)
	}
	return strings.Join(append(lines, foot...), "\n")
}

// footnotes say all of a row, which the columns of a list may cut: below a line that
// is left free, each in at most two lines, and in no more than their part of h.
func (s *Screen) footnotes(w, h int, texts ...string) []string {
	lines := []string{""}
	for _, t := range texts {
		for _, l := range fewLines(t, w, 2) {
			lines = append(lines, s.styles.faint.Render(l))
		}
	}
	return lines[:min(len(lines), h*2/5)]
}

// foot is what stands below the pane: a question, a line being typed or the news,
// and the keys.
func (s *Screen) foot() []string {
	hints := s.styles.faint.Render(pad(s.hints(), s.width))
	switch {
	case s.question != nil:
		return append(s.question.lines(s), hints)
	case s.input != nil:
		return append(s.input.lines(s), hints)
	case s.proposal != nil:
		return []string{pad(oneMoment+": what "+string(s.proposal.act.Do)+" would do", s.width), hints}
	default:
		return append(s.news(), hints)
	}
}

// news are the last that happened, in as many lines as it takes up to a few, else
// how far what is under way has come.
func (s *Screen) news() []string {
	switch {
	case s.note.bad:
		lines := fewLines("! "+s.note.text, s.width, 5)
		for i := range lines {
			lines[i] = s.styles.bad.Render(lines[i])
		}
		return lines
	case s.note.text != "":
		return fewLines(s.note.text, s.width, 3)
	default:
		return []string{pad(s.progress(), s.width)}
	}
}

// progress tells of what is under way.
func (s *Screen) progress() string {
	var parts []string
	for _, d := range s.acts {
		if !d.over {
			parts = append(parts, d.step.words())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.books)) {
		if b := s.books[name]; b.busy {
			parts = append(parts, b.step.words())
		}
	}
	return strings.Join(parts, "; ")
}

// words say how far some work has come.
func (p Step) words() string {
	text := tidy(p.What)
	if p.Done > 0 || p.Total > 0 {
		text += ": " + term.Count(p.Done)
	}
	if p.Total > 0 {
		text += " of " + term.Count(p.Total)
	}
	return text
}

// hints are the keys that the pane takes, as many as fit.
func (s *Screen) hints() string {
	name := s.top().name()
	switch {
	case s.help != nil && s.help.total > s.help.height:
		return "↑ ↓ the rest  any other key: back"
	case s.help != nil:
		return "any key: back"
	case s.question != nil:
		name = paneQuestion
	case s.proposal != nil:
		name = paneProposal
	case s.input != nil:
		name = paneInput
	}
	hint := func(k Key) string { return k.Help().Key + " " + k.Help().Desc }
	last := ""
	if s.input == nil && s.question == nil && s.proposal == nil {
		last = hint(keys.Help) // which tells of those that do not fit
	}
	text := ""
	for _, k := range keysOf(name) {
		next := text + hint(k) + "  "
		if width(next)+width(last) > s.width {
			break
		}
		text = next
	}
	return text + last
}
