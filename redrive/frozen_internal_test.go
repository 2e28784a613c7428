package redrive

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/reconcile"
)

// spooled takes a plan's bytes the way that a store hands them out, in pieces.
func spooled(id PlanID, canonical []byte, piece int) (Frozen, error) {
	s, err := NewSpool()
	if err != nil {
		return Frozen{}, err
	}
	for len(canonical) > 0 {
		n := min(piece, len(canonical))
		if _, err := s.Write(canonical[:n]); err != nil {
			return Frozen{}, errors.Join(err, s.Close())
		}
		canonical = canonical[n:]
	}
	f, err := s.Freeze(id)
	if err != nil {
		return f, errors.Join(err, s.Close())
	}
	return f, nil
}

// TestFrozenIsThePlan: what is read item by item from a file is what was in memory.
func TestFrozenIsThePlan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := Plan{Terms: Terms{Format: PlanFormat, Queue: rapid.String().Draw(t, "queue"), LeftOut: map[string]int{}}, Items: []Item{}, Held: []Held{{Why: "x"}}}
		for i := range rapid.IntRange(0, 12).Draw(t, "items") {
			p.Items = append(p.Items, Item{
				Copy:     broker.CopyID{Entity: "q", ID: fmt.Sprint(i)},
				JobKey:   rapid.String().Draw(t, "key"),
				OrderKey: rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "order"),
				Action:   rapid.SampledFrom([]reconcile.Action{reconcile.Redrive, reconcile.Settle}).Draw(t, "action"),
				Class:    classify.Unknown,
			})
		}
		id, canonical, err := Canonical(p)
		if err != nil {
			t.Skip(err)
		}
		whole, err := Decode(canonical)
		if err != nil {
			t.Fatal(err)
		}
		want := StoredPlan{ID: id, Plan: whole}.Frozen()
		got, err := spooled(id, canonical, rapid.IntRange(1, 400).Draw(t, "piece"))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want.Terms, got.Terms); d != "" || got.Items.Len() != len(p.Items) {
			t.Fatalf("%d items\n%s", got.Items.Len(), d)
		}
		for i := range whole.Items {
			it, err := got.Items.At(i)
			if err != nil {
				t.Fatal(err)
			}
			at, ok := got.Items.of(it.Copy)
			if d := cmp.Diff(&whole.Items[i], it); d != "" || !ok || at != i || got.Items.group(i) != want.Items.group(i) {
				t.Fatalf("item %d is found at %d\n%s", i, at, d)
			}
			for j := range whole.Items {
				same := it.OrderKey != "" && it.OrderKey == whole.Items[j].OrderKey
				if got.Items.group(i) != 0 && got.Items.group(i) == got.Items.group(j) != same {
					t.Fatalf("items %d and %d: groups %d and %d", i, j, got.Items.group(i), got.Items.group(j))
				}
			}
		}
		if d := cmp.Diff(want.Items.Actions(), got.Items.Actions()); d != "" {
			t.Fatal(d)
		}
		if err := got.Items.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestFreezeRefuses: no other bytes than those that were approved, and none that
// this version would not understand.
func TestFreezeRefuses(t *testing.T) {
	t.Parallel()
	p := Plan{Terms: Terms{Format: PlanFormat}, Items: []Item{{Copy: broker.CopyID{Entity: "q", ID: "1"}}}}
	id, canonical, err := Canonical(p)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Replace(canonical, []byte(`"q"`), []byte(`"r"`), 1)
	if _, err := spooled(id, other, 10); !errors.Is(err, ErrChanged) {
		t.Errorf("other bytes: %v", err)
	}
	for name, b := range map[string][]byte{
		"a field of the plan that is not known": bytes.Replace(canonical, []byte(`{`), []byte(`{"bound":1,`), 1),
		"a field of an item that is not known":  bytes.Replace(canonical, []byte(`[{`), []byte(`[{"bound":1,`), 1),
		"another format":                        bytes.Replace(canonical, []byte(PlanFormat), []byte("other"), 1),
		"two lists of items":                    bytes.Replace(canonical, []byte(`"items":`), []byte(`"items":[],"items":`), 1),
		"half of it":                            canonical[:len(canonical)/2],
		"something behind it":                   append(bytes.Clone(canonical), '1'),
		"nothing":                               nil,
	} {
		if _, err := spooled(idOf(b), b, 100); err == nil {
			t.Errorf("%s is taken", name)
		}
		if _, err := Decode(b); err == nil {
			t.Errorf("%s is decoded", name)
		}
	}
}
