package classify_test

import (
	"strings"
	"testing"

	"github.com/redrivectl/redrivectl/internal/classify"
)

func TestCheckNesting(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		deep bool
	}{
		"the default policy":     {string(classify.DefaultYAML()), false},
		"brackets in quotes":     {strings.Repeat("a: '['\n", 2000), false},
		"a bracket in each line": {strings.Repeat("a: [x]\n", 2000), false},
		"open brackets":          {strings.Repeat("[", 200000), true},
		"open over many lines":   {strings.Repeat("[\n", 2000), true},
		"open braces":            {strings.Repeat("{a: ", 2000), true},
		"lists in lists":         {strings.Repeat("- ", 2000) + "x", true},
		"indented":               {strings.Repeat(" ", 2000) + "x: y", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := classify.CheckNesting([]byte(tt.text)); (err != nil) != tt.deep {
				t.Error(err)
			}
			if _, err := classify.Load("p.yaml", []byte(tt.text)); tt.deep && (err == nil || !strings.Contains(err.Error(), "nested deeper")) {
				t.Error("a policy was read:", err)
			}
		})
	}
}
