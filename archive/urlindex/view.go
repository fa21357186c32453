package urlindex

import (
	"context"
	"fmt"
	"iter"

	"golang.org/x/sync/errgroup"
)

// View is the index at one state. It never changes, may be used from many goroutines, and
// needs not be closed. What a later state does not need any more is deleted a day after that,
// so a view that is older than half a day is not to be used.
type View struct {
	state state
	runs  []*run
}

// Through is the sequence number of the catalog up to which all lines are covered, but for
// single ones: see Covers.
func (v *View) Through() int64 { return v.state.Through }

// Covers reports whether the records of the line with this sequence number are in the index.
// Of lines that are erased or expired the rows may be there or not.
func (v *View) Covers(seq int64) bool { return v.state.covers(seq) }

// State is the number of the view's state; 0 covers nothing.
func (v *View) State() int64 { return v.state.N }

// Records is how many rows the index has.
func (v *View) Records() (n int64) {
	for _, r := range v.runs {
		n += r.Rows
	}
	return n
}

// Rows walks the rows of a range in their order, or from the last to the first. Blocks are read as
// the walk comes to them. An error, which names what could not be read, ends it: then the
// records can be found in the segments' indexes. A row is the caller's.
func (v *View) Rows(ctx context.Context, in Range) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		m, err := v.begin(ctx, in)
		if err != nil {
			yield(nil, fmt.Errorf("URL index: %w", err))
			return
		}
		for n := 0; m.line() != nil; n++ {
			r, err := parseRow(m.line())
			if err == nil && n%stride == 0 {
				err = ctx.Err()
			}
			if err != nil {
				yield(nil, fmt.Errorf("URL index: %w", err))
				return
			}
			if !yield(r, nil) {
				return
			}
			if err := m.next(ctx); err != nil {
				yield(nil, fmt.Errorf("URL index: %w", err))
				return
			}
		}
	}
}

// stride is how many rows are walked between two looks at the context.
const stride = 256

// begin stands on the first row of a range, each run's block being read beside the others'.
func (v *View) begin(ctx context.Context, in Range) (*merged, error) {
	from := make([]rows, len(v.runs))
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
	return mergeRows(in.Reverse, from...), nil
}

// Blocks tells how many blocks, of BlockRows rows at most, a range touches, which bounds what
// reading it costs. Only lists of blocks are read. After is not looked at.
func (v *View) Blocks(ctx context.Context, in Range) (int64, error) {
	total := int64(0)
	for _, r := range v.runs {
		first, err := r.find(ctx, in.From)
		if err != nil {
			return 0, fmt.Errorf("URL index: %w", err)
		}
		last := r.Blocks - 1
		if in.To != "" {
			if last, err = r.find(ctx, in.To); err != nil {
				return 0, fmt.Errorf("URL index: %w", err)
			}
			if b, err := r.block(ctx, last); err != nil {
				return 0, fmt.Errorf("URL index: %w", err)
			} else if b.head >= in.To {
				continue // all of the run lies behind
			}
		}
		total += last - first + 1
	}
	return total, nil
}

// BlockRows is how many rows a block has.
const BlockRows = blockRows
