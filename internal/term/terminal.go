package term

import (
	"io"
	"strconv"

	xterm "golang.org/x/term"
)

// DefaultWidth is the width in columns where none can be found out.
const DefaultWidth = 80

// minWidth is the least width that anything is laid out for.
const minWidth = 20

// Terminal is what one output stream is and may be given.
type Terminal struct {
	IsTTY bool
	Width int // columns; DefaultWidth where it is not known
	Color bool
}

// LookupEnv finds an environment variable, as os.LookupEnv does.
type LookupEnv func(name string) (value string, found bool)

// Detect finds out what a stream is. It is a terminal if it has a descriptor
// that is one. COLUMNS overrides the width that the terminal tells. Colour needs
// a terminal, and is off with noColor (the flag), with NO_COLOR set to anything
// but the empty text (https://no-color.org), and with TERM=dumb.
func Detect(stream io.Writer, env LookupEnv, noColor bool) Terminal {
	t := Terminal{Width: DefaultWidth}
	if file, ok := stream.(interface{ Fd() uintptr }); ok {
		fd := int(file.Fd())
		t.IsTTY = xterm.IsTerminal(fd)
		if width, _, err := xterm.GetSize(fd); err == nil && width > 0 {
			t.Width = width
		}
	}
	if columns, err := strconv.Atoi(lookup(env, "COLUMNS")); err == nil && columns > 0 {
		t.Width = columns
	}
	t.Width = max(t.Width, minWidth)
	t.Color = t.IsTTY && !noColor && wantsColor(env)
	return t
}

func wantsColor(env LookupEnv) bool {
	return lookup(env, "NO_COLOR") == "" && lookup(env, "TERM") != "dumb"
}

func lookup(env LookupEnv, name string) string {
	if env == nil {
		return ""
	}
	value, _ := env(name)
	return value
}
