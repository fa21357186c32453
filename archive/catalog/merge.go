package catalog

import (
	"context"
	"fmt"
	"slices"

	"sheaf/archive/sortedrun"
)

// Merge makes one run of those of a level, wherever there are Options.Fanout of
// them, so that a look-up asks few runs however many versions there are: a row
// is rewritten once a level. Each merged run is published as a version. Readers
// and publishers go on meanwhile, and Merge may be cut off at any point.
func (c *Catalog) Merge(ctx context.Context) error {
	for {
		head, err := c.refresh(ctx)
		if err != nil {
			return fmt.Errorf("merge: %w", err)
		}
		full := sortedrun.FullLevel(head.runs, c.opt.Fanout, func(r *run) int { return r.Level })
		if full == nil {
			return nil
		}
		if err := c.mergeRuns(ctx, head.N+1, full); err != nil {
			return fmt.Errorf("merge: %w", err)
		}
	}
}

// mergeRuns publishes one run in place of several. The run is made before the
// log is touched; a publisher who comes between costs only another append, and
// another merger makes the run superfluous.
func (c *Catalog) mergeRuns(ctx context.Context, version int64, runs []*run) error {
	ref, err := c.buildRun(ctx, kindMerge, version, func(w *runWriter) error { return w.addMerged(ctx, runs) })
	if err != nil {
		return err
	}
	ref.Level = runs[0].Level + 1
	names := make([]string, len(runs))
	for i, r := range runs {
		names[i] = r.Name
	}
	_, err = c.append(ctx, func(head *state) (*logRecord, error) {
		rest := slices.DeleteFunc(slices.Clone(head.Runs), func(r runRef) bool { return slices.Contains(names, r.Name) })
		if len(rest)+len(names) != len(head.Runs) {
			return nil, nil // merged by another
		}
		return &logRecord{
			Kind: kindMerge, At: c.after(head), Token: head.Token,
			Added: ref, Merged: names, Runs: addRun(rest, ref), NextSeq: head.NextSeq,
		}, nil
	})
	return err
}

// addMerged adds the rows of the runs as they are, and summaries of all together.
func (w *runWriter) addMerged(ctx context.Context, runs []*run) error {
	rows := openPassing(runs)
	if err := rows.seek(ctx, ""); err != nil {
		return err
	}
	if err := w.addUpTo(ctx, rows, tableSummary); err != nil {
		return err
	}
	if err := w.putSummaries(ctx, runs); err != nil {
		return err
	}
	if err := rows.seek(ctx, tableEdition); err != nil { // the next table
		return err
	}
	return w.addAll(ctx, rows)
}
