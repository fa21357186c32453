package sortedrun

import "context"

// Merged is one sequence of the rows of several sequences. Equal rows all appear, in any order.
type Merged struct {
	from  []Rows
	heap  []head // the sequences that have a row; the first has the least row
	order Order
}

// head is a sequence and its current row.
type head struct {
	rows Rows
	row  []byte
}

// Merge merges sequences that are sorted by order. If they do not stand on their first rows yet,
// call Reset when they do.
func Merge(order Order, from ...Rows) *Merged {
	m := &Merged{from: from, heap: make([]head, 0, len(from)), order: order}
	m.Reset()
	return m
}

// Reset must be called after a sequence was moved other than by m.Next.
func (m *Merged) Reset() {
	m.heap = m.heap[:0]
	for _, r := range m.from {
		if row := r.Row(); row != nil {
			m.heap = append(m.heap, head{r, row})
		}
	}
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.sink(i)
	}
}

// sink restores the heap after the row at i has become greater.
func (m *Merged) sink(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m.heap); child++ {
			if m.order(m.heap[child].row, m.heap[least].row) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		m.heap[i], m.heap[least] = m.heap[least], m.heap[i]
		i = least
	}
}

// Row returns the current row, or nil behind the last one.
func (m *Merged) Row() []byte {
	if len(m.heap) == 0 {
		return nil
	}
	return m.heap[0].row
}

// Next moves to the next row. It fails if ctx has ended.
func (m *Merged) Next(ctx context.Context) error {
	if len(m.heap) == 0 {
		return nil
	}
	first := &m.heap[0]
	if err := first.rows.Next(ctx); err != nil {
		return err
	}
	if first.row = first.rows.Row(); first.row == nil {
		last := len(m.heap) - 1
		*first = m.heap[last]
		m.heap = m.heap[:last]
	}
	m.sink(0)
	return ctx.Err()
}
