package redrive

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/reconcile"
)

// Frozen is a stored plan as it is carried out: its terms, and its jobs to be
// read as they are needed, since a plan can name all of a queue. Whoever got it
// closes its Items.
type Frozen struct {
	ID    PlanID
	State PlanState
	Run   RunID // its one run, if it has begun
	Terms
	Items *Items
}

// Frozen is the plan with its jobs where they are.
func (s StoredPlan) Frozen() Frozen {
	return Frozen{ID: s.ID, State: s.State, Run: s.Run, Terms: s.Plan.Terms, Items: inMemory(s.Plan.Items)}
}

// Items are the jobs of a plan, in its order. What must be known of all of them
// at once is kept; the rest is read item by item.
type Items struct {
	list []Item      // nil: they are in the file
	file *hiddenFile // a plan's canonical bytes
	at   []int64     // where each item stands in it, and where the last one ends

	n        int
	once     sync.Once // what follows is completed when it is asked for
	index    []place   // by digest of the copy's name
	actions  map[reconcile.Action]int
	classes  map[classify.Class]int
	groups   []int32 // the ordering group of each; 0: none. nil: no item has one
	groupsOf map[string]int32
}

// place is where the item of a copy stands in its plan.
type place struct {
	name [16]byte
	item int32
}

func inMemory(list []Item) *Items {
	is := newItems()
	is.list, is.n = list, len(list)
	return is
}

// known has taken up what is kept of all of them. Most who ask about a plan ask
// nothing of that, so it is not made before.
func (is *Items) known() *Items {
	is.once.Do(func() {
		is.index = slices.Grow(is.index, len(is.list))
		for i := range is.list {
			is.know(i, &is.list[i])
		}
		slices.SortFunc(is.index, func(a, b place) int {
			return cmp.Or(bytes.Compare(a.name[:], b.name[:]), int(b.item-a.item))
		})
		is.groupsOf = nil
	})
	return is
}

func newItems() *Items {
	return &Items{actions: map[reconcile.Action]int{}, classes: map[classify.Class]int{}, groupsOf: map[string]int32{}}
}

// know takes up what is kept of item n, which is the next.
func (is *Items) know(n int, it *Item) {
	is.index = append(is.index, place{nameDigest(it.Copy.String()), int32(n)})
	is.actions[it.Action]++
	is.classes[it.Class]++
	if it.OrderKey == "" && is.groups == nil {
		return
	}
	g, known := is.groupsOf[it.OrderKey]
	if !known && it.OrderKey != "" {
		g = int32(len(is.groupsOf) + 1)
		is.groupsOf[it.OrderKey] = g
	}
	is.groups = append(append(is.groups, make([]int32, n-len(is.groups))...), g)
}

func nameDigest(copyName string) [16]byte {
	sum := sha256.Sum256([]byte(copyName))
	return [16]byte(sum[:16])
}

// Len is how many there are.
func (is *Items) Len() int { return is.n }

// Actions counts them by what is done with them.
func (is *Items) Actions() map[reconcile.Action]int { return is.known().actions }

// Classes counts them by failure class.
func (is *Items) Classes() map[classify.Class]int { return is.known().classes }

// At reads item i.
func (is *Items) At(i int) (*Item, error) {
	if is.list != nil {
		return &is.list[i], nil
	}
	b := make([]byte, is.at[i+1]-is.at[i])
	if _, err := is.file.ReadAt(b, is.at[i]); err != nil {
		return nil, fmt.Errorf("read item %d of the plan: %w", i, err)
	}
	it := &Item{}
	if err := json.Unmarshal(bytes.Trim(b, ", \t\r\n"), it); err != nil {
		return nil, fmt.Errorf("read item %d of the plan: %w", i, err)
	}
	return it, nil
}

// each reads all of them, in order.
func (is *Items) each(do func(i int, it *Item)) error {
	for i := range is.Len() {
		it, err := is.At(i)
		if err != nil {
			return err
		}
		do(i, it)
	}
	return nil
}

// find is the item of a copy, by what records call the copy.
func (is *Items) find(copyName string) (int, bool) {
	name := nameDigest(copyName)
	n, ok := slices.BinarySearchFunc(is.known().index, name[:], func(p place, name []byte) int { return bytes.Compare(p.name[:], name) })
	if !ok {
		return 0, false
	}
	return int(is.index[n].item), true
}

func (is *Items) of(c broker.CopyID) (int, bool) { return is.find(c.String()) }

// group is the ordering group of item i; 0: it has none.
func (is *Items) group(i int) int32 {
	if i >= len(is.known().groups) {
		return 0
	}
	return is.groups[i]
}

// grouped reports that an item has an ordering group.
func (is *Items) grouped() bool { return is.known().groups != nil }

// Close lets the file go. A second one does nothing.
func (is *Items) Close() error {
	if is == nil || is.file == nil {
		return nil
	}
	file := is.file
	is.file = nil
	return file.Close()
}

// hiddenFile has no name, or where a system does not permit that of an open file, one
// until it is closed.
type hiddenFile struct {
	*os.File
	named bool
}

func newHiddenFile() (*hiddenFile, error) {
	file, err := os.CreateTemp("", "redrivectl-plan-")
	if err != nil {
		return nil, err
	}
	return &hiddenFile{file, os.Remove(file.Name()) != nil}, nil
}

// Close lets it go.
func (f *hiddenFile) Close() error {
	err := f.File.Close()
	if f.named {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// Spool takes a plan's canonical bytes on their way out of the store, into a file
// that nobody else can open.
type Spool struct {
	file *hiddenFile
	to   *bufio.Writer
	sum  hash.Hash
}

// NewSpool makes the file, which is gone with the process at the latest.
func NewSpool() (*Spool, error) {
	file, err := newHiddenFile()
	if err != nil {
		return nil, fmt.Errorf("hold the plan: %w", err)
	}
	return &Spool{file: file, to: bufio.NewWriterSize(file, 1<<16), sum: sha256.New()}, nil
}

// Write implements io.Writer.
func (s *Spool) Write(p []byte) (int, error) {
	s.sum.Write(p)
	return s.to.Write(p)
}

// Close lets the file go. A plan that Freeze returned closes it itself.
func (s *Spool) Close() error { return s.file.Close() }

// Freeze is the plan that the bytes hold. Bytes that do not hash to id are
// ErrChanged, and what this version does not know in them is refused, as Decode
// refuses it.
func (s *Spool) Freeze(id PlanID) (Frozen, error) {
	if got := PlanID(hex.EncodeToString(s.sum.Sum(nil))); got != id {
		return Frozen{}, fmt.Errorf("plan %s: stored bytes hash to %s: %w", id, got, ErrChanged)
	}
	if err := s.to.Flush(); err != nil {
		return Frozen{}, fmt.Errorf("hold the plan: %w", err)
	}
	size, err := s.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return Frozen{}, fmt.Errorf("hold the plan: %w", err)
	}
	items, about := newItems(), int(size/1000)
	items.file, items.index, items.at = s.file, make([]place, 0, about), make([]int64, 0, about)
	p, err := readPlan(io.NewSectionReader(s.file, 0, size), true, func(it Item, from, to int64) {
		items.know(items.n, &it)
		items.n++
		items.at = append(append(items.at[:max(0, len(items.at)-1)], from), to)
	})
	if err == nil {
		err = p.known()
	}
	if err != nil {
		return Frozen{}, fmt.Errorf("plan %s: decode plan: %w", id, err)
	}
	return Frozen{ID: id, Terms: p.Terms, Items: items}, nil
}
