package urlindex

import (
	"context"

	"sheaf/internal/linesort"
)

// sorter puts any number of lines in order with bounded memory.
type sorter struct{ *linesort.Sorter }

func newSorter(dir string, limit int) *sorter {
	return &sorter{linesort.New(dir, limit, compareLines)}
}

// sorted gives all that was added, in order.
func (s *sorter) sorted() (rows, error) {
	parts, err := s.Parts()
	if err != nil {
		return nil, err
	}
	from := make([]rows, len(parts))
	for i, p := range parts {
		from[i] = added{p}
	}
	return mergeRows(false, from...), nil
}

// added is a part of what was added, as rows.
type added struct{ of *linesort.Lines }

func (a added) line() []byte               { return a.of.Line() }
func (a added) next(context.Context) error { return a.of.Next() }
