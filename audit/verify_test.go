package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const testStore = "00ff"

func testRecord(n int) Record {
	return Record{
		Time: time.Unix(int64(n), 0), Actor: Person{Name: "ana", Known: "account"}, Run: "r1",
		Action: ActionRedrive, Phase: Intent, CopyID: fmt.Sprintf("dlq/%d", n/2), JobKey: fmt.Sprintf("job-%d", n/2),
	}
}

// chain is n records of one run: intents, each followed by its closing outcome.
func chain(t testing.TB, n int) []Row {
	t.Helper()
	head := Head{Store: testStore}
	rows := make([]Row, n)
	for i := range rows {
		r := testRecord(i)
		if i%2 == 1 {
			r.Phase, r.Step, r.Result = Outcome, StepAck, ResultDone
		}
		canonical, next, err := Seal(r, head)
		if err != nil {
			t.Fatal(err)
		}
		rows[i], head = Row{Seq: next.Seq, Canonical: canonical, Hash: next.Hash}, next
	}
	return rows
}

func each(rows []Row) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func headOf(r Row) Head { return Head{Store: testStore, Seq: r.Seq, Hash: r.Hash} }

// reseal writes the chain anew from record n on, as someone would who knows how.
func reseal(t testing.TB, rows []Row, n int, change func(*Record)) []Row {
	t.Helper()
	rows = append([]Row(nil), rows...)
	head := Head{Store: testStore}
	if n > 0 {
		head = headOf(rows[n-1])
	}
	for i := n; i < len(rows); i++ {
		r, err := Decode(rows[i].Canonical)
		if err != nil {
			t.Fatal(err)
		}
		if i == n {
			change(&r)
		}
		canonical, next, err := Seal(r, head)
		if err != nil {
			t.Fatal(err)
		}
		rows[i], head = Row{Seq: next.Seq, Canonical: canonical, Hash: next.Hash}, next
	}
	return rows
}

func TestVerifySound(t *testing.T) {
	t.Parallel()
	rows := chain(t, 101)
	got, err := verifyAll(context.Background(), testStore, each(rows), headOf(rows[60]))
	if err != nil {
		t.Fatal(err)
	}
	want := Report{OK: true, Records: 101, OpenIntents: 1, Head: headOf(rows[100]), Problems: []Problem{}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestVerifyEmpty(t *testing.T) {
	t.Parallel()
	got, err := verifyAll(context.Background(), testStore, each(nil))
	want := Report{OK: true, Head: Head{Store: testStore, Hash: Genesis}, Problems: []Problem{}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

type damage struct {
	name string
	do   func(t *testing.T, rows []Row) []Row
	seq  int64  // where the first problem shows
	what string // and a part of it
}

func damages() []damage {
	edit := func(rows []Row, n int) {
		rows[n].Canonical = bytes.Replace(rows[n].Canonical, []byte("ana"), []byte("eve"), 1)
	}
	return []damage{
		{"edited record", func(_ *testing.T, rows []Row) []Row {
			edit(rows, 6)
			return rows
		}, 7, "edited"},
		{"edited record with its hash", func(_ *testing.T, rows []Row) []Row {
			edit(rows, 6)
			rows[6].Hash = Hash(rows[6].Canonical)
			return rows
		}, 8, "does not continue"},
		{"edited first record with its hash", func(_ *testing.T, rows []Row) []Row {
			edit(rows, 0)
			rows[0].Hash = Hash(rows[0].Canonical)
			return rows
		}, 2, "does not continue"},
		{"removed record", func(_ *testing.T, rows []Row) []Row {
			return append(rows[:4:4], rows[5:]...)
		}, 5, "missing"},
		{"removed records", func(_ *testing.T, rows []Row) []Row {
			return append(rows[:4:4], rows[7:]...)
		}, 5, "5 to 7 are missing"},
		{"removed first record", func(_ *testing.T, rows []Row) []Row { return rows[1:] }, 1, "missing"},
		{"removed tail", func(_ *testing.T, rows []Row) []Row { return rows[:10] }, 10, "cut"},
		{"removed everything", func(_ *testing.T, rows []Row) []Row { return nil }, 0, "cut"},
		{"rewritten tail with a valid chain", func(t *testing.T, rows []Row) []Row {
			return reseal(t, rows, 12, func(r *Record) { r.Actor.Name = "eve" })
		}, 16, "rewritten"},
		{"last record before the checkpoint rewritten", func(t *testing.T, rows []Row) []Row {
			return reseal(t, rows, 15, func(r *Record) { r.Actor.Name = "eve" })
		}, 16, "rewritten"},
		{"rewritten from the first with a valid chain", func(t *testing.T, rows []Row) []Row {
			return reseal(t, rows, 0, func(r *Record) { r.Actor.Name = "eve" })
		}, 16, "rewritten"},
		{"garbage", func(_ *testing.T, rows []Row) []Row {
			rows[3].Canonical = []byte("{")
			rows[3].Hash = Hash(rows[3].Canonical)
			return rows
		}, 4, "cannot be read"},
	}
}

// The remembered checkpoint is at record 16 of 20.
func TestVerifyFindsDamage(t *testing.T) {
	t.Parallel()
	all := append(damages(), damage{"swapped pair", func(_ *testing.T, rows []Row) []Row {
		rows[6].Canonical, rows[7].Canonical = rows[7].Canonical, rows[6].Canonical
		rows[6].Hash, rows[7].Hash = rows[7].Hash, rows[6].Hash
		return rows
	}, 7, "moved"})
	for _, d := range all {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			rows := chain(t, 20)
			checkpoint := headOf(rows[15])
			got, err := verifyAll(context.Background(), testStore, each(d.do(t, rows)), checkpoint)
			if err != nil {
				t.Fatal(err)
			}
			checkDamage(t, d, got)
		})
	}
}

func checkDamage(t *testing.T, d damage, got Report) {
	t.Helper()
	if got.OK || len(got.Problems) == 0 {
		t.Fatalf("not found; report %+v", got)
	}
	if p := got.Problems[0]; p.Seq != d.seq || !strings.Contains(p.What, d.what) {
		t.Errorf("first problem is %+v, want record %d: …%s…", p, d.seq, d.what)
	}
}

func TestVerifyExportFindsDamage(t *testing.T) {
	t.Parallel()
	all := append(damages(), damage{"swapped pair", func(_ *testing.T, rows []Row) []Row {
		rows[6], rows[7] = rows[7], rows[6]
		return rows
	}, 7, "missing"})
	for _, d := range all {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			rows := chain(t, 20)
			checkpoint := headOf(rows[15])
			rows = d.do(t, rows)
			head := Head{Store: testStore}
			if len(rows) > 0 {
				head = headOf(rows[len(rows)-1])
			}
			got, err := VerifyExport(context.Background(), export(t, head, rows), checkpoint)
			if err != nil {
				t.Fatal(err)
			}
			checkDamage(t, d, got)
		})
	}
}

func export(t testing.TB, head Head, rows []Row) io.Reader {
	t.Helper()
	var b bytes.Buffer
	if err := Export(context.Background(), &b, head, each(rows)); err != nil {
		t.Fatal(err)
	}
	return &b
}

func TestVerifyExportSound(t *testing.T) {
	t.Parallel()
	rows := chain(t, 2500)
	got, err := VerifyExport(context.Background(), export(t, headOf(rows[2499]), rows), headOf(rows[1999]))
	want := Report{OK: true, Records: 2500, Head: headOf(rows[2499]), Problems: []Problem{}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestVerifyExportCutShort(t *testing.T) {
	t.Parallel()
	rows := chain(t, 20)
	got, err := VerifyExport(context.Background(), export(t, headOf(rows[19]), rows[:18]))
	if err != nil || got.OK || !strings.Contains(got.Problems[0].What, "not whole") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestVerifyExportLineThatIsNone(t *testing.T) {
	t.Parallel()
	rows := chain(t, 4)
	b, err := io.ReadAll(export(t, headOf(rows[3]), rows))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(b), "\n")
	lines[2] = "not JSON\n"
	got, err := VerifyExport(context.Background(), strings.NewReader(strings.Join(lines, "")))
	if err != nil || got.OK || got.Problems[0] != (Problem{2, "line is not a record of an export"}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestVerifyExportOfAnotherFile(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "{}\n", "hello", `{"format":"redrivectl/plan/v1"}`} {
		if _, err := VerifyExport(context.Background(), strings.NewReader(content)); !errors.Is(err, ErrNotExport) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestVerifyCheckpointOfAnotherStore(t *testing.T) {
	t.Parallel()
	rows := chain(t, 3)
	got, err := verifyAll(context.Background(), testStore, each(rows), Head{Store: "ee", Seq: 3, Hash: rows[2].Hash})
	if err != nil || got.OK {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestVerifyBoundsItsReport(t *testing.T) {
	t.Parallel()
	rows := chain(t, 3000)
	for i := range rows {
		rows[i].Hash = Genesis
	}
	got, err := verifyAll(context.Background(), testStore, each(rows))
	if err != nil || len(got.Problems) != maxProblems+1 {
		t.Errorf("%d problems, %v", len(got.Problems), err)
	}
}

func TestOpenIntentsFold(t *testing.T) {
	t.Parallel()
	rec := func(phase Phase, step, run, copyID, action string) Record {
		return Record{Phase: phase, Step: step, Run: run, CopyID: copyID, Action: action}
	}
	ack := func(result, run string) Record {
		return Record{Phase: Outcome, Step: StepAck, Run: run, CopyID: "c", Action: ActionRedrive, Result: result}
	}
	tests := []struct {
		name string
		rs   []Record
		want int
	}{
		{"intent", []Record{rec(Intent, "", "r", "c", "redrive")}, 1},
		{"published", []Record{rec(Intent, "", "r", "c", "redrive"), rec(Outcome, StepPublish, "r", "c", "redrive")}, 1},
		{"ledger moved in a run", []Record{rec(Intent, "", "r", "c", "redrive"), rec(Outcome, StepLedger, "r", "c", "redrive")}, 1},
		{"acknowledged", []Record{rec(Intent, "", "r", "c", "redrive"), ack(ResultDone, "r")}, 0},
		{"acknowledgement not done", []Record{rec(Intent, "", "r", "c", "redrive"), ack(ResultUnknown, "r"), ack(ResultRefused, "r")}, 1},
		{"acknowledged in another run", []Record{rec(Intent, "", "r", "c", "redrive"), ack(ResultDone, "r2")}, 1},
		{"settled instead", []Record{rec(Intent, "", "r", "c", "redrive"), {Phase: Outcome, Step: StepAck, Run: "r", CopyID: "c", Action: ActionSettle, Result: ResultDone}}, 0},
		{"tried again", []Record{rec(Intent, "", "r", "c", "redrive"), rec(Intent, "", "r", "c", "redrive"), rec(Outcome, StepClose, "r", "c", "redrive")}, 0},
		{"skip without intent", []Record{rec(Outcome, StepClose, "r", "c", "redrive")}, 0},
		{"fence", []Record{rec(Intent, "", "", "", "fence"), rec(Outcome, StepLedger, "", "", "fence")}, 0},
		{"fence and another action", []Record{rec(Intent, "", "", "", "fence"), rec(Outcome, "", "", "", "reconcile")}, 1},
		{"checkpoint", []Record{rec(Intent, "", "r", "", "run"), rec(Outcome, "", "r", "", ActionCheckpoint)}, 1},
	}
	for _, tt := range tests {
		open := openIntents{}
		for _, r := range tt.rs {
			open.see(r)
		}
		if len(open) != tt.want {
			t.Errorf("%s: %d open, want %d", tt.name, len(open), tt.want)
		}
	}
}

func TestSealCutsReason(t *testing.T) {
	t.Parallel()
	canonical, _, err := Seal(Record{Reason: strings.Repeat("ä", MaxReason)}, Head{Store: testStore})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Decode(canonical)
	if err != nil || len(r.Reason) > MaxReason || len(r.Reason) < MaxReason-8 || !strings.HasSuffix(r.Reason, "ä…") {
		t.Errorf("%d bytes, %v", len(r.Reason), err)
	}
}

func BenchmarkVerify(b *testing.B) {
	rows := chain(b, 1000)
	for b.Loop() {
		if r, err := verifyAll(context.Background(), testStore, each(rows)); err != nil || !r.OK {
			b.Fatal(r, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
}

func FuzzVerifyExport(f *testing.F) {
	b, err := io.ReadAll(export(f, headOf(chain(f, 3)[2]), chain(f, 3)))
	if err != nil {
		f.Fatal(err)
	}
	sound := string(b)
	f.Add(b)
	f.Add([]byte(`{"format":"redrivectl/audit-export/v1","head":{"store":"a","seq":"9223372036854775807","hash":""}}` + "\n{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := VerifyExport(context.Background(), bytes.NewReader(b), headOf(chain(t, 3)[2]))
		if err == nil && r.OK && strings.TrimRight(string(b), "\r\n") != strings.TrimRight(sound, "\n") && r.Head != headOf(chain(t, 3)[2]) {
			t.Errorf("another export verifies: %q", b)
		}
	})
}

// verifyAll walks a whole log of the store. The error is the iterator's or ctx's:
// the log could not be read to its end, which says nothing of what it holds.
func verifyAll(ctx context.Context, store string, rows iter.Seq2[Row, error], anchors ...Head) (Report, error) {
	v := NewVerifier(store, Head{}, anchors...)
	if err := v.Walk(ctx, rows); err != nil {
		return Report{}, err
	}
	return v.Report(), nil
}
