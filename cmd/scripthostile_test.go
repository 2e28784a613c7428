package cmd

import (
	"encoding/json"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// hostileText is what an attacker would have a terminal do: colour and cursor
// movement, a write to the clipboard, a title, C1 controls (as runes), text that
// runs backwards, a forged line, NUL, BEL, backspace and delete.
const hostileText = "\x1b[31mred\x1b[2J \x1b]52;c;cm0gLXJm\x07 \x1b]0;title\x1b\\ \u009b31m \u0085 " +
	"\u202eevil\u202c \u2066iso\u2069 \u200f \u061c line\r\nforged\u2028line\u2029 \x00\x07\x08\x7f \ufeff"

// hostile FILE writes a seed file whose jobs carry that text wherever a message
// can: payload, reason, attributes and their names, identity; one line of 1 MiB;
// bytes that are no UTF-8.
func scriptHostile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: hostile FILE")
	}
	payload, err := json.Marshal(map[string]string{"text": hostileText})
	ts.Check(err)
	jobs := []map[string]any{
		{
			"key": "h-1", "payload": json.RawMessage(payload), "reason": reasonOf("429", hostileText),
			"customer": hostileText, "region": hostileText, "kind": hostileText, "state": "failed", "class": "throttled",
		},
		{"key": "h-2" + strings.ReplaceAll(hostileText, "\x00", ""), "reason": reasonOf("429", "plain")},
		{
			"key": "h-3", "body_base64": []byte("raw \xff\xfe\x00\x1b[31m\x9b31m\x80 bytes"),
			"attributes": map[string]string{"job_key": "h-3", "note": hostileText},
			"binary":     map[string][]byte{"blob": []byte("\x00\xff\x1b]52;c;x\x07")},
			"reason":     reasonOf("429", "x"), "state": "failed", "class": "throttled",
		},
		{
			"key": "h-4", "payload": json.RawMessage(`"` + strings.Repeat("long ", 1<<20/5) + `"`),
			"reason": reasonOf("429", strings.Repeat("why ", 1<<20/4)), "state": "failed", "class": "throttled",
		},
		{"body_base64": []byte("\x1b[31m" + strings.Repeat("\xc3\x28", 100)), "reason": reasonOf(hostileText, "y")},
	}
	var lines []byte
	for _, j := range jobs {
		b, err := json.Marshal(j)
		ts.Check(err)
		lines = append(append(lines, b...), '\n')
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), lines, 0o600))
}

func reasonOf(code, message string) map[string]string {
	return map[string]string{"Code": code, "Message": message}
}
