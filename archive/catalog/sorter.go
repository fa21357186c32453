package catalog

import (
	"bytes"
	"context"

	"sheaf/internal/linesort"
)

// sorter puts any number of rows in order with bounded memory. Rows may be equal.
type sorter struct{ of *linesort.Sorter }

func newSorter(dir string, limit int) *sorter {
	return &sorter{linesort.New(dir, limit, bytes.Compare)}
}

// add takes one row, which ends with a newline and has no other.
func (s *sorter) add(row []byte) error { return s.of.Add(row) }

// rows gives everything that was added, in order, as often as it is called.
func (s *sorter) rows(context.Context) (rows, error) {
	parts, err := s.of.Parts()
	if err != nil {
		return nil, err
	}
	from := make([]rows, len(parts))
	for i, p := range parts {
		from[i] = added{p}
	}
	return mergeRows(from...), nil
}

func (s *sorter) close() error { return s.of.Close() }

// added is a part of what was added, as rows.
type added struct{ of *linesort.Lines }

func (a added) row() []byte                { return a.of.Line() }
func (a added) next(context.Context) error { return a.of.Next() }
