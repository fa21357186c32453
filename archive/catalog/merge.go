package catalog

import (
	"context"
	"fmt"
	"slices"

	"sheaf/archive/sortedrun"
)

// Merge merges the runs of every level that has Options.Fanout runs, so that a look-up reads few
// runs however many versions there are. Each row is rewritten once for each level. Each merged run
// is published as a version. Readers and publishers are not affected, and Merge may be interrupted
// at any point.
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

// mergeRuns publishes one run in place of several. It makes the run before it appends the version:
// if a publisher appends first, only the append is repeated; if another process has merged the same
// runs, the run is left for collection.
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
			return nil, nil // another process has merged them
		}
		return &logRecord{
			Kind: kindMerge, At: c.after(head), Token: head.Token,
			Added: ref, Merged: names, Runs: addRun(rest, ref), NextSeq: head.NextSeq,
		}, nil
	})
	return err
}

// addMerged adds the rows of the runs unchanged, except for summaries: each host gets one summary
// of all its entries.
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
