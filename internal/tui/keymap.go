package tui

import (
	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"
)

// keymap is every key of the screen. docs/triage.md has its table from here.
type keymap struct {
	Up, Down, PageUp, PageDown, Top, Bottom Key
	Open, Back, Help, Quit, Suspend         Key
	Look, Again, Describe                   Key

	Filter, Condition, Clear, Sort, Reverse Key

	Mark, MarkAll, Unmark, Reconcile, Create, Plans, Runs Key
	Edit, Freeze, Approve, Reject, Start, Watch           Key
	Pause, GoOn, Promote, Abort                           Key

	Form, Reveal, Fetch, Timeline Key

	Yes, No, Accept, Cancel Key
}

// Key is one key, or several that do the same. Help has what the key line at the
// foot of the screen says of it, and Does what the help and the docs say.
type Key struct {
	key.Binding
	Does string
}

func bind(show, short, does string, ks ...string) Key {
	return Key{key.NewBinding(key.WithKeys(ks...), key.WithHelp(show, short)), does}
}

// is reports whether a key that was pressed is this one.
func (k Key) is(msg tea.KeyMsg) bool { return key.Matches(msg, k.Binding) }

// keys are the ones in force. What a pane takes of them is said by Panes.
var keys = keymap{
	Up:       bind("↑ k", "up", "up", "up", "k"),
	Down:     bind("↓ j", "down", "down", "down", "j"),
	PageUp:   bind("pgup ^b", "page up", "a page up", "pgup", "ctrl+b"),
	PageDown: bind("pgdn ^f", "page down", "a page down", "pgdown", "ctrl+f"),
	Top:      bind("home g", "top", "to the top", "home", "g"),
	Bottom:   bind("end G", "bottom", "to the bottom", "end", "G"),
	Open:     bind("enter → l", "open", "open what the cursor is on", "enter", "right", "l"),
	Back:     bind("esc ← h", "back", "back to the pane before", "esc", "left", "h"),
	Help:     bind("?", "keys", "the keys of this pane", "?", "f1"),
	Quit:     bind("q ^c", "quit", "quit", "q", "ctrl+c"),
	Suspend:  bind("^z", "suspend", "suspend; what is under way is given up first, so that it holds nothing meanwhile", "ctrl+z"),
	Look:     bind("r F5", "look", "look again; the line at the top says whether that counts as a receive", "r", "f5"),
	Again:    bind("r F5", "now", "ask the store now; the pane does so by itself every second", "r", "f5"),
	Describe: bind("r F5", "ask", "ask the brokers again; no message is looked at", "r", "f5"),

	Filter:    bind("/", "filter", "show what has these words, or class:, region:, schema: with values apart by commas", "/"),
	Condition: bind(":", "condition", "show what a CEL condition lets pass, as plan create --where takes it", ":"),
	Clear:     bind("x", "all", "drop filter and condition", "x"),
	Sort:      bind("s", "sort", "sort by the next column", "s"),
	Reverse:   bind("S", "turn", "sort the other way round", "S"),

	Mark:      bind("space", "mark", "mark, or take the mark back", " "),
	MarkAll:   bind("m", "mark all", "mark all that the list shows", "m"),
	Unmark:    bind("u", "unmark", "take all marks back", "u"),
	Reconcile: bind("c", "reconcile", "ask the provider about what is marked, else about all that the list shows; asks first, and records what is proven", "c"),
	Create:    bind("n", "plan", "make a plan of what is marked, else of all that the list shows", "n"),
	Plans:     bind("a", "plans", "plans, and those that wait for your approval", "a"),
	Runs:      bind("w", "runs", "runs, living and past", "w"),

	Edit:    bind("enter", "type", "type a value for the line", "enter", "right", "l"),
	Freeze:  bind("F", "freeze", "freeze the plan; asks first", "F"),
	Approve: bind("A", "approve", "approve the plan; asks how many items it has, why, and then once more", "A"),
	Reject:  bind("J", "reject", "reject the plan; asks why, and then once more", "J"),
	Start:   bind("S", "run", "carry the plan out; asks first", "S"),
	Watch:   bind("enter → l", "watch", "watch the plan's run", "enter", "right", "l"),
	Pause:   bind("p", "pause", "pause the run after the batch in flight; asks why, and then once more", "p"),
	GoOn:    bind("o", "go on", "let a paused run go on, or resume a dead one here; asks first", "o"),
	Promote: bind("P", "promote", "let a run go on whose gate was inconclusive, or whose circuit breaker tripped; asks why, and then once more", "P"),
	Abort:   bind("X", "abort", "end the run for good; asks why, and then once more", "X"),

	Form:     bind("f", "form", "payload as JSON, text or hex", "f"),
	Reveal:   bind("R", "reveal", "show secrets as they are; asks why, and is recorded in the audit log", "R"),
	Fetch:    bind("p", "payload", "look at the queue again for a payload that was not kept", "p"),
	Timeline: bind("t", "time line", "the job's time line, and back", "t"),

	Yes:    bind("y", "yes", "do it", "y", "Y"),
	No:     bind("n esc", "no", "leave it; nothing is changed", "n", "N", "esc"),
	Accept: bind("enter", "accept", "take what was typed", "enter"),
	Cancel: bind("esc ^c", "leave", "leave it", "esc", "ctrl+c"),
}

// Keys of one pane, as help and docs list them.
type Keys struct {
	Pane string
	Keys []Key
}

// Panes lists the keys of each pane.
func Panes() []Keys {
	walk := []Key{keys.Up, keys.Down, keys.PageUp, keys.PageDown, keys.Top, keys.Bottom}
	everywhere := []Key{keys.Plans, keys.Runs, keys.Back, keys.Quit, keys.Suspend}
	with := func(own ...Key) []Key { return append(append([]Key{}, own...), everywhere...) }
	return []Keys{
		{"everywhere", append([]Key{keys.Help}, walk...)},
		{paneQueues, with(keys.Open, keys.Describe, keys.Sort, keys.Reverse)},
		{paneClasses, with(keys.Open, keys.Mark, keys.Reconcile, keys.Create, keys.Look, keys.Sort, keys.Reverse, keys.Unmark)},
		{paneJobs, with(keys.Open, keys.Mark, keys.Filter, keys.Condition, keys.Reconcile, keys.Create, keys.MarkAll, keys.Unmark, keys.Clear,
			keys.Sort, keys.Reverse, keys.Look)},
		{paneJob, with(keys.Form, keys.Reveal, keys.Fetch, keys.Timeline)},
		{paneReconcile, with()},
		{paneForm, with(keys.Edit, keys.Freeze)},
		{panePlans, with(keys.Open, keys.Again)},
		{panePlan, with(keys.Approve, keys.Reject, keys.Start, keys.Watch)},
		{paneRuns, with(keys.Open, keys.Again)},
		{paneRun, with(keys.Pause, keys.GoOn, keys.Abort, keys.Promote)},
		{paneProposal, []Key{keys.Cancel}},
		{paneQuestion, []Key{keys.Yes, keys.No}},
		{paneInput, []Key{keys.Accept, keys.Cancel}},
	}
}

// Names of the panes.
const (
	paneQueues  = "queues"
	paneClasses = "classes"
	paneJobs    = "jobs"
	paneJob     = "job"

	paneReconcile = "reconcile"
	paneForm      = "plan form"
	panePlans     = "plans"
	panePlan      = "plan"
	paneRuns      = "runs"
	paneRun       = "run"
)

// Names of what takes the keys in a pane's place.
const (
	paneProposal = "question being prepared"
	paneQuestion = "question"
	paneInput    = "input line"
)

// keysOf are a pane's own keys.
func keysOf(pane string) []Key {
	for _, k := range Panes() {
		if k.Pane == pane {
			return k.Keys
		}
	}
	return nil
}
