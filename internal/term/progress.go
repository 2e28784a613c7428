package term

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	redrawEvery = 100 * time.Millisecond // on a terminal
	logEvery    = 10 * time.Second       // in a log
)

// Step is how far some work has come.
type Step struct {
	What  string // "redriving digests"
	Done  int64  // negative: nothing is counted, and Note says how it stands
	Total int64  // 0 where it is not known
	Note  string // what else is worth a word: "2 skipped"
}

// Progress tells on standard error how far some work has come: on a terminal on
// one line that is written over, in a log on a line now and then. It is safe for
// concurrent use, and the nil Progress is silent. A failure to write is not the
// work's, and ends the telling alone.
type Progress struct {
	w      io.Writer
	t      Terminal
	now    func() time.Time
	mu     sync.Mutex
	start  time.Time
	last   time.Time
	drawn  bool
	broken bool // nothing is told any more
	tell   func(Step)
}

// TellProgress gives each step to tell, as it comes, and writes nothing.
func TellProgress(tell func(Step)) *Progress { return &Progress{tell: tell} }

// NewProgress tells the progress on w, which t describes. Time is what now says.
// With quiet it returns the silent Progress.
func NewProgress(w io.Writer, t Terminal, quiet bool, now func() time.Time) *Progress {
	if quiet {
		return nil
	}
	start := now()
	p := &Progress{w: w, t: t, now: now, start: start, last: start}
	if t.IsTTY {
		p.last = start.Add(-redrawEvery) // the first line is drawn at once
	}
	return p
}

// Update tells a step, unless the last one was told just now.
func (p *Progress) Update(s Step) {
	if p == nil {
		return
	}
	if p.tell != nil {
		p.tell(s)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now, every := p.now(), logEvery
	if p.t.IsTTY {
		every = redrawEvery
	}
	if now.Sub(p.last) < every {
		return
	}
	p.last = now
	line := s.line(now.Sub(p.start))
	if !p.t.IsTTY {
		p.write(line + "\n")
		return
	}
	p.write("\r" + eraseLine + Paint(p.t.Color, Faint, Cut(line, p.t.Width-1)))
	p.drawn = true
}

// eraseLine is ECMA-48 "erase in line", from the cursor on.
const eraseLine = "\x1b[K"

// Finish takes the line off the terminal, so that results stand alone.
func (p *Progress) Finish() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		p.write("\r" + eraseLine)
		p.drawn = false
	}
}

// End takes the line off the terminal for good: later steps are not told.
func (p *Progress) End() {
	p.Finish()
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.broken = true
	}
}

func (p *Progress) write(s string) {
	if p.broken {
		return
	}
	if _, err := io.WriteString(p.w, s); err != nil {
		p.broken = true
	}
}

// line says a step in words: "redriving digests: 120 of 240 (50%), 48/s, 2s
// left, 1 skipped".
func (s Step) line(elapsed time.Duration) string {
	if s.Done < 0 {
		return Clean(s.What) + ": " + Clean(s.Note)
	}
	text := Clean(s.What) + ": " + Count(s.Done)
	if s.Total > 0 {
		text += fmt.Sprintf(" of %s (%d%%)", Count(s.Total), min(100, 100*s.Done/s.Total))
	}
	if seconds := elapsed.Seconds(); seconds >= 1 && s.Done > 0 {
		rate := float64(s.Done) / seconds
		text += fmt.Sprintf(", %s/s", rateText(rate))
		if left := s.Total - s.Done; left > 0 {
			text += ", " + Duration(time.Duration(float64(left)/rate*float64(time.Second))) + " left"
		}
	}
	if s.Note != "" {
		text += ", " + Clean(s.Note)
	}
	return text
}

func rateText(perSecond float64) string {
	if perSecond < 10 {
		return fmt.Sprintf("%.1f", perSecond)
	}
	return Count(int64(perSecond + 0.5))
}
