package term

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// secretMember matches the JSON member names under which every value is hidden.
var secretMember = regexp.MustCompile(`(?i)(?:` + secretName + `|authorization|cookie|^sig)$`)

// layOutJSON lays one JSON value out with indent (none: on one line), and with
// mask hides secrets in it. It goes by the structure: a member named like a secret
// loses all its values, also numbers and lists, and every other string passes Mask
// after its escapes were read. Order, numbers and repeated members stay; the result
// is valid JSON, cleaned as CleanJSON does.
func layOutJSON(encoded []byte, indent string, mask bool) ([]byte, error) {
	p := &jsonPrinter{in: json.NewDecoder(bytes.NewReader(encoded)), indent: indent, mask: mask}
	p.in.UseNumber()
	if err := p.value(0, false); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	if _, err := p.in.Token(); err != io.EOF {
		return nil, fmt.Errorf("read JSON: more than one value")
	}
	return CleanJSON(p.out.Bytes()), nil
}

// maxJSONDepth is as deep as a value is laid out; deeper ones are shown as text.
const maxJSONDepth = 1000

type jsonPrinter struct {
	in     *json.Decoder
	out    bytes.Buffer
	indent string
	mask   bool
}

// value prints the next value; hidden says that it belongs to a secret.
func (p *jsonPrinter) value(depth int, hidden bool) error {
	token, err := p.in.Token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case json.Delim:
		if depth >= maxJSONDepth {
			return fmt.Errorf("nested deeper than %d", maxJSONDepth)
		}
		return p.container(t, depth, hidden)
	case string:
		return p.text(t, hidden)
	case json.Number:
		return p.number(t, hidden)
	}
	if hidden {
		return p.text("", true)
	}
	return p.encode(token)
}

func (p *jsonPrinter) container(open json.Delim, depth int, hidden bool) error {
	p.out.WriteString(open.String())
	empty := true
	for ; p.in.More(); empty = false {
		if !empty {
			p.out.WriteByte(',')
		}
		p.newLine(depth + 1)
		if err := p.element(open, depth, hidden); err != nil {
			return err
		}
	}
	end, err := p.in.Token()
	if err != nil {
		return err
	}
	if !empty {
		p.newLine(depth)
	}
	_, err = fmt.Fprint(&p.out, end)
	return err
}

func (p *jsonPrinter) element(open json.Delim, depth int, hidden bool) error {
	if open == '{' {
		token, err := p.in.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if err := p.encode(name); err != nil {
			return err
		}
		p.out.WriteByte(':')
		if p.indent != "" {
			p.out.WriteByte(' ')
		}
		hidden = hidden || p.mask && secretMember.MatchString(name)
	}
	return p.value(depth+1, hidden)
}

func (p *jsonPrinter) text(s string, hidden bool) error {
	switch {
	case hidden:
		s = Masked
	case p.mask:
		s = Mask(s)
	}
	return p.encode(s)
}

func (p *jsonPrinter) number(n json.Number, hidden bool) error {
	if hidden || p.mask && Mask(n.String()) != n.String() {
		return p.encode(Masked)
	}
	return p.encode(n)
}

func (p *jsonPrinter) encode(v any) error {
	enc := json.NewEncoder(&p.out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	p.out.Truncate(p.out.Len() - 1) // Encode ends each value with a newline.
	return nil
}

func (p *jsonPrinter) newLine(depth int) {
	if p.indent != "" {
		p.out.WriteByte('\n')
		p.out.WriteString(strings.Repeat(p.indent, depth))
	}
}
