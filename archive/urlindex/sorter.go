package urlindex

import (
	"context"

	"sheaf/internal/linesort"
)

// sorter sorts any number of lines with bounded memory.
type sorter struct{ *linesort.Sorter }

func newSorter(dir string, limit int) *sorter {
	return &sorter{linesort.New(dir, limit, compareLines)}
}

// sorted returns all lines that were added, in order.
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

// added is one sorted part of the lines, as rows.
type added struct{ of *linesort.Lines }

func (a added) line() []byte               { return a.of.Line() }
func (a added) next(context.Context) error { return a.of.Next() }
