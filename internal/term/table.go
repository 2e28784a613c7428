package term

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// Layout says which columns matter how much where a table does not fit. The zero
// Layout wraps the last column and cuts the others, the widest first.
type Layout struct {
	// Wrap names the columns, from 0, that are wrapped instead of cut; nil means
	// the last one.
	Wrap []int
	// Keep names the columns that are made narrower only when nothing else is
	// left, such as those with an identifier that is to be typed again.
	Keep []int
	// Style gives a cell's style; nil draws all of them plain.
	Style func(row, column int) Style
}

// Table writes rows for a reader or for a program. On a terminal it is a table
// with a header that fits the width: wide columns are wrapped or cut, columns of
// numbers stand on the right, and where too many columns remain, each row
// becomes a block of "name: value" lines. In a pipe it is one line a row, whole
// cells apart by TAB, without a header. Every cell is cleaned here. A row may be
// shorter than the header, never longer.
func (l Layout) Table(w io.Writer, headers []string, rows [][]string, t Terminal) error {
	cells := make([][]string, 0, len(rows))
	for i, row := range rows {
		if len(row) > len(headers) {
			return fmt.Errorf("draw table: row %d has %d cells under %d headers", i, len(row), len(headers))
		}
		line := make([]string, len(headers))
		for j, cell := range row {
			line[j] = Clean(cell)
		}
		cells = append(cells, line)
	}
	switch {
	case !t.IsTTY:
		return plainRows(w, cells)
	case len(headers) == 0 || len(rows) == 0:
		return nil
	}
	if t.Width <= 0 {
		t.Width = DefaultWidth
	}
	if l.Wrap == nil {
		l.Wrap = []int{len(headers) - 1}
	}
	d := drawing{layout: l, terminal: t, headers: headers, cells: cells}
	limits, ok := d.fit()
	if !ok {
		return d.blocks(w)
	}
	return d.columns(w, limits)
}

// drawing is one table on a terminal, its cells clean.
type drawing struct {
	layout   Layout
	terminal Terminal
	headers  []string
	cells    [][]string
}

func plainRows(w io.Writer, cells [][]string) error {
	b := bufio.NewWriter(w)
	for _, row := range cells {
		fmt.Fprintln(b, strings.Join(row, "\t"))
	}
	return b.Flush()
}

// blocks writes each row as lines of its own.
func (d drawing) blocks(w io.Writer) error {
	b := bufio.NewWriter(w)
	label := 0
	for _, h := range d.headers {
		label = max(label, Width(h))
	}
	for i, row := range d.cells {
		if i > 0 {
			fmt.Fprintln(b)
		}
		for j, cell := range row {
			name := Cut(widths.FillRight(d.headers[j], label), d.terminal.Width/2)
			cell = Cut(cell, d.terminal.Width-Width(name)-len(columnGap))
			if cell == "" {
				name = strings.TrimRight(name, " ")
			} else {
				name += columnGap
			}
			fmt.Fprintln(b, Paint(d.terminal.Color, Faint, name)+d.paint(i, j, cell))
		}
	}
	return b.Flush()
}

// columns hands cells that fit to tablewriter. It is kept from changing them: no
// automatic format, wrapping or trimming.
func (d drawing) columns(w io.Writer, limits []int) error {
	align := alignments(d.cells, len(d.headers))
	var out bytes.Buffer
	table := tablewriter.NewTable(&out,
		tablewriter.WithConfig(plainConfig(align)),
		tablewriter.WithEastAsian(tw.Off),
		tablewriter.WithRenderer(renderer.NewBlueprint(borderless())),
	)
	names := make([]string, len(d.headers))
	for j, h := range d.headers {
		names[j] = Paint(d.terminal.Color, Bold, Cut(h, limits[j]))
	}
	table.Header(names)
	for i, row := range d.cells {
		line := make([]string, len(row))
		for j, cell := range row {
			line[j] = d.shape(i, j, cell, limits[j])
		}
		if err := table.Append(line); err != nil {
			return fmt.Errorf("draw table: %w", err)
		}
	}
	if err := table.Render(); err != nil {
		return fmt.Errorf("draw table: %w", err)
	}
	return trimLines(w, &out)
}

// trimLines copies lines without the spaces that fill the last column.
func trimLines(w io.Writer, drawn *bytes.Buffer) error {
	b := bufio.NewWriter(w)
	for line := range bytes.Lines(drawn.Bytes()) {
		b.Write(bytes.TrimRight(line, " \n"))
		b.WriteByte('\n')
	}
	return b.Flush()
}

// shape wraps or cuts a cell to its column's width and paints each line.
func (d drawing) shape(row, column int, cell string, limit int) string {
	lines := []string{Cut(cell, limit)}
	if slices.Contains(d.layout.Wrap, column) {
		lines = wrap(cell, limit)
	}
	for i, line := range lines {
		lines[i] = d.paint(row, column, line)
	}
	return strings.Join(lines, "\n")
}

func (d drawing) paint(row, column int, s string) string {
	if d.layout.Style == nil {
		return s
	}
	return Paint(d.terminal.Color, d.layout.Style(row, column), s)
}

func plainConfig(align []tw.Align) tablewriter.Config {
	cell := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Alignment:  tw.CellAlignment{Global: tw.AlignLeft, PerColumn: align},
		Padding:    tw.CellPadding{Global: tw.Padding{Left: "", Right: columnGap, Overwrite: true}},
	}
	return tablewriter.Config{
		Header:   cell,
		Row:      cell,
		Behavior: tw.Behavior{TrimSpace: tw.Off, TrimLine: tw.Off, AutoHide: tw.Off},
	}
}

func borderless() tw.Rendition {
	return tw.Rendition{
		Borders: tw.Border{Left: tw.Off, Right: tw.Off, Top: tw.Off, Bottom: tw.Off},
		Symbols: tw.NewSymbols(tw.StyleNone),
		Settings: tw.Settings{
			Lines:      tw.Lines{ShowTop: tw.Off, ShowBottom: tw.Off, ShowHeaderLine: tw.Off, ShowFooterLine: tw.Off},
			Separators: tw.Separators{ShowHeader: tw.Off, ShowFooter: tw.Off, BetweenRows: tw.Off, BetweenColumns: tw.Off},
		},
	}
}

// alignments puts the columns that hold nothing but numbers and lengths of time
// on the right.
func alignments(cells [][]string, columns int) []tw.Align {
	align := make([]tw.Align, columns)
	for j := range align {
		align[j] = tw.AlignRight
		filled := false
		for _, row := range cells {
			if row[j] == "" || row[j] == "-" {
				continue
			}
			filled = true
			if !isFigure(row[j]) {
				filled = false
				break
			}
		}
		if !filled {
			align[j] = tw.AlignLeft
		}
	}
	return align
}

// isFigure says that a cell is a count, a share or a length of time: it begins
// like a number and has no more than units after its digits.
func isFigure(s string) bool {
	s = strings.TrimLeft(s, "~<-")
	if s == "" || !isDigit(s[0]) || len(s) > len("999,999,999,999") {
		return false
	}
	return strings.Trim(s, "0123456789.,% dhms/") == ""
}
