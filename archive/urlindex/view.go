package urlindex

import (
	"context"
	"fmt"

	"sheaf/archive/sortedrun"

	"golang.org/x/sync/errgroup"
)

// View is the index at one state. It is immutable, may be used concurrently, and need not be
// closed. Do not use a view for more than half a day: if a later state does not name a run, the run
// is deleted after a day.
type View struct {
	state state
	runs  []*run
}

// Through returns the sequence number up to which the view covers all entries of the catalog,
// except for a few: see Covers.
func (v *View) Through() int64 { return v.state.Through }

// Covers reports whether the records of the entry with this sequence number are in the index. The
// rows of erased or expired entries may be missing all the same.
func (v *View) Covers(seq int64) bool { return v.state.covers(seq) }

// State returns the number of the view's state; 0 covers nothing.
func (v *View) State() int64 { return v.state.N }

// Records returns the number of rows in the index.
func (v *View) Records() (n int64) {
	for _, r := range v.runs {
		n += r.Rows
	}
	return n
}

// Rows are the rows of a range, in order or in reverse. They must not be used concurrently.
type Rows struct {
	merged *sortedrun.Merged
	last   *Row // nil before the first
}

// Rows returns the rows of a range. It reads each block only when it needs it.
func (v *View) Rows(ctx context.Context, in Range) (*Rows, error) {
	m, err := v.begin(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("URL index: %w", err)
	}
	return &Rows{merged: m}, nil
}

// Next returns the next row, or nil behind the last one. The caller may keep the row. An error ends
// the walk; the records can then be found in the segments' indexes.
func (r *Rows) Next(ctx context.Context) (*Row, error) {
	if r.last != nil {
		if err := r.merged.Next(ctx); err != nil {
			return nil, fmt.Errorf("URL index: %w", err)
		}
	}
	line := r.merged.Row()
	if line == nil {
		return nil, nil
	}
	row, err := parseAfter(r.last, line)
	if err != nil {
		return nil, fmt.Errorf("URL index: %w", err)
	}
	r.last = row
	return row, nil
}

// begin returns the merged rows of a range. It reads the first block of each run in parallel.
func (v *View) begin(ctx context.Context, in Range) (*sortedrun.Merged, error) {
	from := make([]sortedrun.Rows, len(v.runs))
	load, loadCtx := errgroup.WithContext(ctx)
	load.SetLimit(parallel)
	for i, r := range v.runs {
		load.Go(func() error {
			c, err := r.begin(loadCtx, in)
			from[i] = c
			return err
		})
	}
	if err := load.Wait(); err != nil {
		return nil, err
	}
	order := sortedrun.Order(compareLines)
	if in.Reverse {
		order = func(a, b []byte) int { return compareLines(b, a) }
	}
	return sortedrun.Merge(order, from...), nil
}

// Blocks returns the number of blocks, of at most BlockRows rows, that a range touches. It is an
// upper limit for the blocks that a walk through the range reads. Blocks reads only lists of blocks
// and ignores After.
func (v *View) Blocks(ctx context.Context, in Range) (int64, error) {
	total := int64(0)
	for _, r := range v.runs {
		n, err := r.touched(ctx, in)
		if err != nil {
			return 0, fmt.Errorf("URL index: %w", err)
		}
		total += n
	}
	return total, nil
}

// touched returns the number of the run's blocks that a range touches.
func (r *run) touched(ctx context.Context, in Range) (int64, error) {
	first, err := r.Find(ctx, in.From)
	last := r.runRef.Blocks - 1
	if err != nil || in.To == "" {
		return last - first + 1, err
	}
	if last, err = r.Find(ctx, in.To); err != nil {
		return 0, err
	}
	b, err := r.block(ctx, last)
	if err != nil || b.head >= in.To { // all of the run is after the range
		return 0, err
	}
	return last - first + 1, nil
}

// BlockRows is the number of rows in a block; the last block of a run may have fewer.
const BlockRows = blockRows
