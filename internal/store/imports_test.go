package store_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/audit"
)

// TestTriedBefore: what an import says of forgotten tries is found by the payload,
// from the intent on; of other actions and imports nothing is.
func TestTriedBefore(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	for payload, r := range map[string]audit.Record{
		"tried": {Action: "import", Phase: audit.Intent, Details: map[string]string{"receives": "5"}},
		"once":  {Action: "import", Phase: audit.Intent},
		"other": {Action: "export", Phase: audit.Intent, Details: map[string]string{"receives": "5"}},
	} {
		r.PayloadSHA256 = payload
		if _, err := f.Append(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	got, err := f.TriedBefore(ctx, []string{"once", "tried", "other", "none", "tried", ""})
	if d := cmp.Diff(map[string]bool{"tried": true}, got); d != "" || err != nil {
		t.Error(err, d)
	}
}
