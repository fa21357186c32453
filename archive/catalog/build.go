package catalog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
	"sheaf/internal/files"
)

// compose stores the rows that fill adds, and returns the record of the version that adds them to
// the head. Each row takes a sequence number. Without rows compose returns nil.
func (c *Catalog) compose(ctx context.Context, head *state, k kind, at time.Time, fill func(*runWriter) error) (*logRecord, error) {
	run, err := c.buildRun(ctx, k, head.N+1, fill)
	if err != nil || run.Rows == 0 {
		return nil, err
	}
	return &logRecord{Kind: k, At: at, Token: head.Token, Added: run, Runs: addRun(head.Runs, run), NextSeq: head.NextSeq + run.Rows}, nil
}

// buildRun writes the rows that fill adds as a run to a temporary file, and stores the run under a
// name of its own. Nobody reads the run until a version names it. Without rows buildRun stores
// nothing.
func (c *Catalog) buildRun(ctx context.Context, k kind, version int64, fill func(*runWriter) error) (ref runRef, err error) {
	f, err := files.Nameless(c.opt.TempDir)
	if err != nil {
		return ref, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := newRunWriter(f, c.lib.codec, c.opt.BlockSize)
	if err := fill(w); err != nil {
		return ref, err
	}
	if ref, err = w.finish(); err != nil || ref.Rows == 0 {
		return ref, err
	}
	ref.Name = runPrefix + seqKey(version) + "-" + strings.ToLower(rand.Text())
	ref.built = time.Now()
	return ref, c.opt.Boundary.Write(string(k)+writeRun, func() error {
		return store.PutOwn(ctx, c.lib.store, ref.Name, f, ref.Size)
	})
}

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
	rows := openTable(passing(runs...))
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
