package catalog

import (
	"bytes"
	"context"
)

// rows is a sorted sequence of rows. row is nil behind the last one, and good
// until the next step.
type rows interface {
	row() []byte
	next(ctx context.Context) error
}

// merged is several sorted sequences as one.
type merged struct {
	from  []rows
	least rows // the one whose row comes first; nil behind the last
}

func mergeRows(from ...rows) *merged {
	m := &merged{from: from}
	m.pick()
	return m
}

func (m *merged) pick() {
	m.least = nil
	for _, r := range m.from {
		if r.row() != nil && (m.least == nil || bytes.Compare(r.row(), m.least.row()) < 0) {
			m.least = r
		}
	}
}

func (m *merged) row() []byte {
	if m.least == nil {
		return nil
	}
	return m.least.row()
}

func (m *merged) next(ctx context.Context) error {
	if m.least == nil {
		return nil
	}
	if err := m.least.next(ctx); err != nil {
		return err
	}
	m.pick()
	return ctx.Err()
}

// table walks the rows of several runs as one, and seeks in them.
type table struct {
	merged
	cursors []*cursor
}

func openTable(runs []*run) *table {
	t := &table{cursors: make([]*cursor, len(runs)), merged: merged{from: make([]rows, len(runs))}}
	for i, r := range runs {
		t.cursors[i] = r.cursor()
		t.from[i] = t.cursors[i]
	}
	return t
}

// openPassing is openTable for who goes through all rows once: readers beside it
// keep the blocks that they use.
func openPassing(runs []*run) *table {
	t := openTable(runs)
	for _, c := range t.cursors {
		c.passing = true
	}
	return t
}

// seek stands on the first row at or behind key.
func (t *table) seek(ctx context.Context, key string) error {
	for _, c := range t.cursors {
		if err := c.seek(ctx, key); err != nil {
			return err
		}
	}
	t.pick()
	return ctx.Err()
}

// advance goes on to the first row at or behind key, which lies ahead of all
// rows that were passed.
func (t *table) advance(ctx context.Context, key string) error {
	for _, c := range t.cursors {
		if err := c.advance(ctx, key); err != nil {
			return err
		}
	}
	t.pick()
	return ctx.Err()
}

// lastUnder passes all rows that begin with prefix, and gives the last of them;
// the table stands on one.
func (t *table) lastUnder(ctx context.Context, prefix string) (last []byte, err error) {
	for _, c := range t.cursors {
		var at []byte
		for beginsWith(c.at, prefix) {
			at = c.at
			if err := c.next(ctx); err != nil {
				return nil, err
			}
		}
		if at != nil && bytes.Compare(at, last) > 0 {
			last = at
		}
	}
	t.pick()
	return last, ctx.Err()
}

// under reports whether the table stands on a row that begins with prefix.
func (t *table) under(prefix string) bool { return beginsWith(t.row(), prefix) }

// beginsWith is bytes.HasPrefix without making bytes of prefix.
func beginsWith(row []byte, prefix string) bool {
	return len(row) >= len(prefix) && string(row[:len(prefix)]) == prefix
}
