package cmd

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/internal/tui"
)

// pictures says that the pictures of docs/triage.md are to be made again: make pictures.
var pictures = flag.Bool("pictures", false, "draw the pictures of docs/triage.md anew")

// triagePictures are those that docs/triage.md and the README show, with the keys
// that lead to each from the one before and what is then on the screen.
var triagePictures = []struct {
	file  string
	title string
	keys  []string
	shows string
}{
	{"triage-classes.svg", "The failure classes of a queue on the triage screen", nil, `> timeout`},
	{"triage-reconcile.svg", "Verdicts of a reconciliation on the triage screen", []string{"c", "await Fence and move(?s).*\\[y/n\\]", "y"}, "reconcile: done"},
	{"triage-job.svg", "One job on the triage screen", []string{"esc", "await trend", "enter", "await shown, sorted", "enter"}, "what was attempted"},
	{"triage-plan.svg", "A plan in the making on the triage screen", []string{"esc", "await shown, sorted", "n"}, `items +\d+`},
}

// TestTriagePictures draws the pictures from the demo with -pictures, and else holds
// what is there to be pictures that the pages show.
func TestTriagePictures(t *testing.T) {
	t.Parallel()
	if *pictures {
		drawTriagePictures(t)
	}
	page, readme := readFile(t, "../docs/triage.md"), readFile(t, "../README.md")
	for _, p := range triagePictures {
		wellFormed(t, readFile(t, filepath.Join("../docs", p.file)))
		if !strings.Contains(page, "("+p.file+")") {
			t.Errorf("docs/triage.md does not show %s", p.file)
		}
	}
	if !strings.Contains(readme, "docs/"+triagePictures[0].file) {
		t.Errorf("the README does not show %s", triagePictures[0].file)
	}
}

func wellFormed(t *testing.T, text string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func drawTriagePictures(t *testing.T) {
	t.Helper()
	dir := triageWorld(t, "240")
	s := sitDown(t.Context(), t, dir, "requester", tui.Options{Queue: "digests", Color: true})
	for _, p := range triagePictures {
		for _, k := range p.keys {
			if text, ok := strings.CutPrefix(k, "await "); ok {
				s.sees(text)
			} else {
				s.types(k)
			}
		}
		s.sees(p.shows)
		s.mu.Lock()
		text := svgOf(p.title, s.frame)
		s.mu.Unlock()
		if err := os.WriteFile(filepath.Join("../docs", p.file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Columns and lines of a picture, in its own units, as docs/screen.svg has them.
const (
	svgColumn = 7.8
	svgLine   = 18
	svgTop    = 48
	svgLeft   = 16
)

var sgr = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// svgOf is a frame as a picture.
func svgOf(title, frame string) string {
	lines := strings.Split(frame, "\n")
	w, h := int(2*svgLeft+80*svgColumn), svgTop+svgLine*len(lines)
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", w, h, w, h, html.EscapeString(title))
	fmt.Fprintf(&b, "<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#16181d\"/>\n", w, h)
	for i, colour := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, "<circle cx=\"%d\" cy=\"16\" r=\"5.5\" fill=\"%s\"/>\n", 18+18*i, colour)
	}
	b.WriteString("<g font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,monospace\" font-size=\"13\" fill=\"#d6d9e0\" xml:space=\"preserve\" style=\"white-space:pre\">\n")
	for i, line := range lines {
		svgText(&b, svgTop+svgLine*i, line)
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}

// svgText draws a line, piece by piece: a piece ends where its style does.
func svgText(b *strings.Builder, y int, line string) {
	column, style := 0, ""
	piece := func(text string) {
		plain := strings.TrimRight(text, " ")
		x := svgLeft + float64(column)*svgColumn
		column += term.Width(text)
		if style == "7" {
			fmt.Fprintf(b, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"#d6d9e0\"/>\n", x, y-14, float64(term.Width(text))*svgColumn, svgLine)
		}
		if plain == "" {
			return
		}
		look := map[string]string{
			"1": ` font-weight="600"`, "2": ` fill="#9aa4b2"`, "7": ` fill="#16181d"`, "31": ` fill="#ff8a80"`, "32": ` fill="#8fd694"`, "33": ` fill="#ffd479"`,
		}[style]
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\" textLength=\"%.1f\"%s>%s</text>\n", x, y, float64(term.Width(plain))*svgColumn, look, html.EscapeString(plain))
	}
	for {
		at := sgr.FindStringSubmatchIndex(line)
		if at == nil {
			piece(line)
			return
		}
		piece(line[:at[0]])
		style = line[at[2]:at[3]]
		line = line[at[1]:]
	}
}
