package cmd

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/redrive"
)

// runWatch looks at a run now and then until it has ended, or has died.
type runWatch struct {
	look  func(context.Context) (runRecordView, error)
	sleep func(context.Context, time.Duration) error
	// tell is told of each look at a run that has not ended, and whether anything
	// changed since the one before.
	tell func(v runRecordView, changed bool) error
}

func (w runWatch) wait(ctx context.Context) (runRecordView, error) {
	var last runRecordView
	for {
		v, err := w.look(ctx)
		if err != nil || v.ended() {
			return v, err
		}
		now := v
		now.Duration = 0
		if err := w.tell(v, !reflect.DeepEqual(now, last)); err != nil {
			return v, err
		}
		last = now
		if err := w.sleep(ctx, pollEvery); err != nil {
			return v, err
		}
	}
}

// progressNote is what is worth a word while the run goes on.
func (v runRecordView) progressNote() string {
	if v.pace.Effective < v.pace.Asked {
		return v.stateText() + ", at " + paceText(v.pace)
	}
	return v.stateText()
}

// ended reports that nobody carries the run out, now.
func (v runRecordView) ended() bool { return !v.Lives }

// exit is how the run's own process ends with what the record says.
func (v runRecordView) exit() error {
	switch redrive.RunState(v.State) {
	case redrive.RunPaused:
		if v.atGate() {
			return silently(exitGate)
		}
	case redrive.RunAborted:
		if v.Gate.state.Verdict == redrive.VerdictFail {
			return silently(exitGate)
		}
		return silently(exitRefused)
	case redrive.RunFailed:
		return silently(exitFailed)
	case redrive.RunFinished:
		if !v.partly() {
			return nil
		}
	}
	return silently(exitPartly)
}

// watchRun shows a run until it has ended: with -o jsonl one object for each
// change, else how far it is, on standard error. Then the run as it ended.
func (a *app) watchRun(ctx context.Context, id redrive.RunID) error {
	progress := a.progress()
	w := runWatch{
		sleep: sleep,
		look:  func(ctx context.Context) (runRecordView, error) { return a.lookAtRun(ctx, id) },
		tell: func(v runRecordView, changed bool) error {
			if a.output == outputJSONL {
				if !changed {
					return nil
				}
				return writeLine(a.stdout, v)
			}
			progress.Update(term.Step{
				What: "run " + short(v.Run) + " on " + v.Queue, Done: int64(v.Planned - v.Remaining), Total: int64(v.Planned),
				Note: v.progressNote(),
			})
			return nil
		},
	}
	v, err := w.wait(ctx)
	if err != nil {
		return err
	}
	if err := a.print(v.showResult()); err != nil {
		return err
	}
	return v.exit()
}

// lookAtRun reads the run from the store as it is now.
func (a *app) lookAtRun(ctx context.Context, id redrive.RunID) (v runRecordView, err error) {
	err = a.withStoreNow(ctx, func(st *store.Store) error {
		r, err := st.LoadRun(ctx, string(id))
		if err == nil {
			v, err = a.showView(ctx, st, r)
		}
		return err
	})
	if err != nil {
		return v, fmt.Errorf("look at run %s: %w", id, err)
	}
	return v, nil
}

// withStoreNow opens the store anew, for one look: a folder that cannot be written
// has it read as it was when opened. It is redrive.ErrNotFound where there is none.
func (a *app) withStoreNow(ctx context.Context, do func(*store.Store) error) (err error) {
	path, err := a.storeFile()
	if err != nil {
		return err
	}
	opts, err := a.storeOptions()
	if err != nil {
		return err
	}
	st, err := store.OpenReadOnly(ctx, path, opts)
	if errors.Is(err, store.ErrNoStore) {
		return redrive.ErrNotFound
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return do(st)
}
