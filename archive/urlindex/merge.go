package urlindex

import (
	"container/heap"
	"context"
)

// rows is a sorted sequence of lines. line returns nil after the last line; it is valid until the
// next call of next.
type rows interface {
	line() []byte
	next(ctx context.Context) error
}

func (c *cursor) line() []byte { return c.at }

// merged merges several sorted sequences into one.
type merged struct {
	from    []rows // a heap; empty at the end
	reverse bool
}

func mergeRows(reverse bool, from ...rows) *merged {
	m := &merged{reverse: reverse}
	for _, r := range from {
		if r.line() != nil {
			m.from = append(m.from, r)
		}
	}
	heap.Init(m)
	return m
}

func (m *merged) line() []byte {
	if len(m.from) == 0 {
		return nil
	}
	return m.from[0].line()
}

func (m *merged) next(ctx context.Context) error {
	if len(m.from) == 0 {
		return nil
	}
	if err := m.from[0].next(ctx); err != nil {
		return err
	}
	if m.from[0].line() == nil {
		heap.Pop(m)
	} else if len(m.from) > 1 {
		heap.Fix(m, 0)
	}
	return nil
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (m *merged) Len() int { return len(m.from) }

func (m *merged) Less(i, j int) bool {
	if m.reverse {
		i, j = j, i
	}
	return compareLines(m.from[i].line(), m.from[j].line()) < 0
}

func (m *merged) Swap(i, j int) { m.from[i], m.from[j] = m.from[j], m.from[i] }
func (m *merged) Push(x any)    { m.from = append(m.from, x.(rows)) }
func (m *merged) Pop() any {
	last := m.from[len(m.from)-1]
	m.from = m.from[:len(m.from)-1]
	return last
}
