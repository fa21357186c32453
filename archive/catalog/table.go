package catalog

import (
	"bytes"
	"context"
	"iter"

	"sheaf/archive/sortedrun"
)

// table walks the rows of several runs as one, and seeks in them.
type table struct {
	*sortedrun.Merged
	cursors []*sortedrun.Cursor
}

func openTable(runs []*run) *table {
	t := &table{cursors: make([]*sortedrun.Cursor, len(runs))}
	from := make([]sortedrun.Rows, len(runs))
	for i, r := range runs {
		t.cursors[i] = sortedrun.NewCursor(r)
		from[i] = t.cursors[i]
	}
	t.Merged = sortedrun.Merge(bytes.Compare, from...)
	return t
}

// seek moves to the first row at or behind key.
func (t *table) seek(ctx context.Context, key string) error {
	for _, c := range t.cursors {
		if err := c.Seek(ctx, key); err != nil {
			return err
		}
	}
	t.Reset()
	return ctx.Err()
}

// advance moves forward to the first row at or behind key. All rows passed before must sort before
// key.
func (t *table) advance(ctx context.Context, key string) error {
	for _, c := range t.cursors {
		if err := c.Advance(ctx, key); err != nil {
			return err
		}
	}
	t.Reset()
	return ctx.Err()
}

// lastUnder passes all rows that begin with prefix, and returns the last of them. The table must
// stand on such a row.
func (t *table) lastUnder(ctx context.Context, prefix string) (last []byte, err error) {
	for _, c := range t.cursors {
		var at []byte
		for bytes.HasPrefix(c.Row(), []byte(prefix)) {
			at = c.Row()
			if err := c.Next(ctx); err != nil {
				return nil, err
			}
		}
		if at != nil && bytes.Compare(at, last) > 0 {
			last = at
		}
	}
	t.Reset()
	return last, ctx.Err()
}

// under reports whether the table stands on a row that begins with prefix.
func (t *table) under(prefix string) bool { return bytes.HasPrefix(t.Row(), []byte(prefix)) }

// scan walks the rows that begin with prefix, in order. A row is valid until the next step.
func scan(ctx context.Context, runs []*run, prefix string) iter.Seq2[[]byte, error] {
	return scanFrom(ctx, runs, prefix, prefix)
}

// scanFrom walks the rows that begin with prefix and are at or behind start.
func scanFrom(ctx context.Context, runs []*run, prefix, start string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		t := openTable(runs)
		err := t.seek(ctx, max(prefix, start))
		for ; err == nil && t.under(prefix); err = t.Next(ctx) {
			if !yield(t.Row(), nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}
