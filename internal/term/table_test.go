package term

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	tableHeaders = []string{"CLASS", "EFFECT", "COUNT", "OLDEST", "OWNER", "NEEDS"}
	tableRows    = [][]string{
		{"throttled", "none", "1,234", "3d4h", "team-mail", "-"},
		{"unknown", "unknown", "7", "15m", "on-call", "read the reason\x1b[31m, then plan with --as CLASS or hold it for the owner of the class"},
		{"日本語", "none", "~90", "2h", "オーナー"},
	}
)

func TestTable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		l    Layout
		o    Terminal
		want string
	}{
		"pipe": {Layout{}, Terminal{Width: 20, Color: true}, "" +
			"throttled\tnone\t1,234\t3d4h\tteam-mail\t-\n" +
			"unknown\tunknown\t7\t15m\ton-call\tread the reason\\x1b[31m, then plan with --as CLASS or hold it for the owner of the class\n" +
			"日本語\tnone\t~90\t2h\tオーナー\t\n"},
		"80 columns, wrapped": {Layout{}, Terminal{IsTTY: true, Width: 80}, `
CLASS      EFFECT   COUNT  OLDEST  OWNER      NEEDS
throttled  none     1,234    3d4h  team-mail  -
unknown    unknown      7     15m  on-call    read the reason\x1b[31m, then
                                              plan with --as CLASS or hold it
                                              for the owner of the class
日本語     none       ~90      2h  オーナー
`},
		"80 columns, cut": {Layout{Wrap: []int{}}, Terminal{IsTTY: true}, `
CLASS      EFFECT   COUNT  OLDEST  OWNER      NEEDS
throttled  none     1,234    3d4h  team-mail  -
unknown    unknown      7     15m  on-call    read the reason\x1b[31m, then p…
日本語     none       ~90      2h  オーナー
`},
		"120 columns": {Layout{}, Terminal{IsTTY: true, Width: 120}, `
CLASS      EFFECT   COUNT  OLDEST  OWNER      NEEDS
throttled  none     1,234    3d4h  team-mail  -
unknown    unknown      7     15m  on-call    read the reason\x1b[31m, then plan with --as CLASS or hold it for the
                                              owner of the class
日本語     none       ~90      2h  オーナー
`},
		"too narrow for columns": {Layout{}, Terminal{IsTTY: true, Width: 30}, `
CLASS   throttled
EFFECT  none
COUNT   1,234
OLDEST  3d4h
OWNER   team-mail
NEEDS   -

CLASS   unknown
EFFECT  unknown
COUNT   7
OLDEST  15m
OWNER   on-call
NEEDS   read the reason\x1b[3…

CLASS   日本語
EFFECT  none
COUNT   ~90
OLDEST  2h
OWNER   オーナー
NEEDS
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got strings.Builder
			if err := c.l.Table(&got, tableHeaders, tableRows, c.o); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, line := range strings.Split(got.String(), "\n") {
				if width := max(c.o.Width, DefaultWidth); c.o.IsTTY && Width(line) > width {
					t.Errorf("wider than %d columns: %q", width, line)
				}
			}
		})
	}
}

func TestTableKeepsColumn(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	rows := [][]string{{strings.Repeat("k", 30), strings.Repeat("r", 40)}}
	if err := (Layout{Keep: []int{0}}).Table(&got, []string{"JOB", "REASON"}, rows, Terminal{IsTTY: true, Width: 50}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got.String(), rows[0][0]) {
		t.Errorf("the kept column was cut:\n%s", got.String())
	}
}

// TestTableSharesRoom: columns that are as wide give way in turn.
func TestTableSharesRoom(t *testing.T) {
	t.Parallel()
	limits := []int{3, 54, 40, 40}
	left := shrink(limits, []int{3, 6, 6, 6}, 44, func(int) bool { return true })
	if d := cmp.Diff([]int{3, 30, 30, 30}, limits); d != "" || left != 0 {
		t.Errorf("%d are left; %s", left, d)
	}
}

func TestTableStyles(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	style := func(_, column int) Style {
		if column == 1 {
			return Bad
		}
		return Plain
	}
	rows := [][]string{{"a", "broken\x1b[0m"}}
	if err := (Layout{Style: style}).Table(&got, []string{"A", "B"}, rows, Terminal{IsTTY: true, Color: true}); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[31mbroken\\x1b[0m\x1b[0m"; !strings.Contains(got.String(), want) {
		t.Errorf("%q does not contain %q", got.String(), want)
	}
}

func TestTableRefusesLongRow(t *testing.T) {
	t.Parallel()
	if err := (Layout{}).Table(&strings.Builder{}, []string{"A"}, [][]string{{"a", "b"}}, Terminal{}); err == nil {
		t.Error("a row longer than the header was accepted")
	}
}

func TestTableReportsWriteError(t *testing.T) {
	t.Parallel()
	for _, o := range []Terminal{{}, {IsTTY: true}, {IsTTY: true, Width: 30}} {
		if err := (Layout{}).Table(failingWriter{}, tableHeaders, tableRows, o); !errors.Is(err, errWrite) {
			t.Errorf("%+v: error %v, want %v", o, err, errWrite)
		}
	}
}

var errWrite = errors.New("disk full")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errWrite }

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in    string
		width int
		want  []string
	}{
		{"", 5, []string{""}},
		{"one two three", 7, []string{"one two", "three"}},
		{"abcdefgh", 3, []string{"abc", "def", "gh"}},
		{"日本", 1, []string{"…"}},
		{strings.Repeat("x ", 20), 1, []string{"x", "x", "x", "x", "x", "…"}},
	} {
		if diff := cmp.Diff(c.want, wrap(c.in, c.width)); diff != "" {
			t.Errorf("wrap(%q, %d) (-want +got):\n%s", c.in, c.width, diff)
		}
	}
}
