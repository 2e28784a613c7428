package term

// Style is how a text stands out. Nothing is said by colour alone: each text
// means the same without it.
type Style int

// The styles. Plain is the text as it is.
const (
	Plain Style = iota
	Bold
	Faint
	Good
	Warn
	Bad
)

// sgr holds the parameters of ECMA-48 "select graphic rendition" for each
// style, from the eight colours that every theme defines.
var sgr = [...]string{Plain: "", Bold: "1", Faint: "2", Good: "32", Warn: "33", Bad: "31"}

// Paint puts a style around a cleaned text, where color is on.
func Paint(color bool, style Style, s string) string {
	if !color || s == "" || style <= Plain || int(style) >= len(sgr) {
		return s
	}
	return "\x1b[" + sgr[style] + "m" + s + "\x1b[0m"
}
