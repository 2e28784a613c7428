package term

import (
	"slices"
	"strings"
)

const (
	columnGap   = "  "
	leastColumn = 6 // columns below this width say nothing any more
)

// fit gives each column a width such that the table fits; ok is false if there
// are too many columns for that. What is too wide is taken from the widest
// column first, as long as it is not one of Layout.Keep.
func (d drawing) fit() (limits []int, ok bool) {
	limits = naturalWidths(d.headers, d.cells)
	least := make([]int, len(limits))
	excess := len(columnGap) * (len(limits) - 1)
	for j, n := range limits {
		excess += n
		least[j] = min(n, max(leastColumn, min(Width(d.headers[j]), 2*leastColumn)))
	}
	excess -= d.terminal.Width - len(columnGap) // the last column is padded too
	excess = shrink(limits, least, excess, func(j int) bool { return !slices.Contains(d.layout.Keep, j) })
	excess = shrink(limits, least, excess, func(int) bool { return true })
	return limits, excess <= 0
}

func naturalWidths(headers []string, cells [][]string) []int {
	natural := make([]int, len(headers))
	for j, h := range headers {
		natural[j] = Width(h)
	}
	for _, row := range cells {
		for j, cell := range row {
			natural[j] = max(natural[j], Width(cell))
		}
	}
	return natural
}

// shrink narrows the widest of the columns that may be, step by step, and
// returns what could not be taken away.
func shrink(limits, least []int, excess int, may func(int) bool) int {
	for excess > 0 {
		widest, next := -1, 0
		for j := range limits {
			switch {
			case !may(j) || limits[j] <= least[j]:
			case widest < 0 || limits[j] > limits[widest]: //nolint:gosec // G602: widest was an index of limits, or is below 0.
				widest, next = j, max(next, widthOf(limits, widest))
			default:
				next = max(next, limits[j])
			}
		}
		if widest < 0 {
			return excess
		}
		// Down to the next widest; two that are as wide take turns.
		step := min(excess, max(1, min(limits[widest]-next, limits[widest]-least[widest])))
		limits[widest] -= step
		excess -= step
	}
	return excess
}

// widthOf is the width of a column, 0 if there is none.
func widthOf(limits []int, column int) int {
	if column < 0 {
		return 0
	}
	return limits[column]
}

// maxWrapLines bounds one cell's height; a longer text is cut.
const maxWrapLines = 6

// wrap breaks a text into lines of at most width columns, at spaces where
// there are any.
func wrap(s string, width int) []string {
	var lines []string
	for rest := s; ; {
		if Width(rest) <= width {
			return append(lines, rest)
		}
		if len(lines) == maxWrapLines-1 {
			return append(lines, Cut(rest, width))
		}
		head := widths.Truncate(rest, width, "")
		if head == "" { // one character wider than the column
			return append(lines, Cut(rest, width))
		}
		if i := strings.LastIndexByte(head, ' '); i > 0 && rest[len(head)] != ' ' {
			head = head[:i]
		}
		lines = append(lines, head)
		rest = strings.TrimLeft(rest[len(head):], " ")
	}
}
