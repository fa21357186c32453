package urlindex

import (
	"bytes"
	"context"

	"sheaf/archive/sortedrun"
)

// walk is the lines of one run within a range, in the range's direction. It implements
// sortedrun.Rows.
type walk struct {
	*sortedrun.Cursor
	in   Range
	done bool // the end of the range was reached
}

// begin returns a walk on the first line of the range.
func (r *run) begin(ctx context.Context, in Range) (*walk, error) {
	w := &walk{Cursor: sortedrun.NewCursor(r), in: in}
	if err := w.start(ctx); err != nil {
		return nil, err
	}
	w.bound()
	return w, w.skip(ctx)
}

// start moves to the first line within the range's bounds. The line may be at or before
// Range.After; skip then goes on.
func (w *walk) start(ctx context.Context) error {
	bound := w.in.From
	if w.in.Reverse {
		bound = w.in.To
	}
	if w.in.After != nil {
		head := string(w.in.After.head())
		if !w.in.Reverse {
			bound = max(bound, head)
		} else if head += "!"; bound == "" || head < bound { // this bound is behind all lines of the same head
			bound = head
		}
	}
	switch {
	case !w.in.Reverse:
		return w.Seek(ctx, bound)
	case bound == "":
		return w.SeekEnd(ctx)
	}
	return w.SeekBefore(ctx, bound)
}

// Row returns the current line, or nil at the end of the range.
func (w *walk) Row() []byte {
	if w.done {
		return nil
	}
	return w.Cursor.Row()
}

// Next moves to the next line of the range.
func (w *walk) Next(ctx context.Context) error {
	step := w.Cursor.Next
	if w.in.Reverse {
		step = w.Previous
	}
	if err := step(ctx); err != nil {
		return err
	}
	w.bound()
	return nil
}

// bound ends the walk at the end of the range.
func (w *walk) bound() {
	row := w.Cursor.Row()
	w.done = row == nil || !w.in.Reverse && w.in.To != "" && string(row) >= w.in.To || w.in.Reverse && string(row) < w.in.From
}

// skip skips the lines up to the position after which the range begins.
func (w *walk) skip(ctx context.Context) error {
	if w.in.After == nil {
		return nil
	}
	head := w.in.After.head()
	for row := w.Row(); row != nil && bytes.HasPrefix(row, head); row = w.Row() {
		r, err := parseRow(row)
		if err != nil {
			return err
		}
		if d := r.Position().Compare(*w.in.After); d > 0 && !w.in.Reverse || d < 0 && w.in.Reverse {
			return nil
		}
		if err := w.Next(ctx); err != nil {
			return err
		}
	}
	return nil
}
