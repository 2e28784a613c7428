package cmd

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/redrive"
)

// watchRuns shows the runs of a queue, or of all, until none of them lives: with
// -o jsonl one object for each run that changed, else how far the living ones are,
// on standard error. Then the list.
func (a *app) watchRuns(ctx context.Context, queue string) error {
	progress := a.progress()
	last := map[string]runRecordView{}
	for {
		views, err := a.runsNow(ctx, queue)
		if err != nil {
			return err
		}
		if err := a.tellRuns(progress, views, last); err != nil {
			return err
		}
		if !slices.ContainsFunc(views, func(v runRecordView) bool { return v.Lives }) {
			return a.printWatched(views)
		}
		if err := sleep(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// tellRuns tells what changed since last, which it brings up to date. Of a run that
// was over before there is nothing to tell.
func (a *app) tellRuns(progress *term.Progress, views []runRecordView, last map[string]runRecordView) error {
	var texts []string
	step := term.Step{}
	for _, v := range views {
		now := v
		now.Duration = 0
		before, seen := last[v.Run]
		last[v.Run] = now
		if v.Lives {
			texts = append(texts, fmt.Sprintf("%s on %s %s", short(v.Run), v.Queue, v.progressNote()))
			step.Done, step.Total = step.Done+int64(v.Planned-v.Remaining), step.Total+int64(v.Planned)
		}
		if a.output == outputJSONL && (v.Lives || seen) && !reflect.DeepEqual(now, before) {
			if err := writeLine(a.stdout, v); err != nil {
				return err
			}
		}
	}
	if a.output != outputJSONL && len(texts) > 0 {
		step.What, step.Note = fmt.Sprintf("%d live", len(texts)), strings.Join(texts, "; ")
		progress.Update(step)
	}
	return nil
}

// printWatched is the end of a watch. With -o jsonl every change was told.
func (a *app) printWatched(views []runRecordView) error {
	if a.output == outputJSONL {
		return nil
	}
	return a.printRuns(views)
}

// runsNow reads the runs as they are now.
func (a *app) runsNow(ctx context.Context, queue string) ([]runRecordView, error) {
	var views []runRecordView
	err := a.withStoreNow(ctx, func(st *store.Store) (err error) {
		views, err = a.runViews(ctx, st, queue)
		return err
	})
	if errors.Is(err, redrive.ErrNotFound) {
		err = nil // there is no store yet
	}
	return views, err
}
