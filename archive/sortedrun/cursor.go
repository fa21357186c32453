package sortedrun

import (
	"bytes"
	"context"
	"errors"
	"sort"
)

// Run is a stored run, as a Cursor reads it.
type Run interface {
	// Len returns the number of blocks. They are numbered from 0, and none is empty.
	Len() int64
	// Find returns the number of the last block that begins before bound, or 0 if none does.
	Find(ctx context.Context, bound string) (int64, error)
	// Block reads a block.
	Block(ctx context.Context, n int64) (*Block, error)
}

// Block is the rows of one decoded block. It is immutable.
type Block struct {
	data []byte
	ends []int32 // end of each row in data, including its newline
}

// NewBlock returns the rows in data. data must have at least one row, and the last one must also
// end with a newline. rows is the expected number of rows, for allocation.
func NewBlock(data []byte, rows int) (*Block, error) {
	if len(data) == 0 || data[len(data)-1] != '\n' {
		return nil, errors.New("does not end with a row")
	}
	b := &Block{data: data, ends: make([]int32, 0, min(rows, len(data)))}
	for at := 0; at < len(data); {
		at += bytes.IndexByte(data[at:], '\n') + 1
		b.ends = append(b.ends, int32(at))
	}
	return b, nil
}

// Len returns the number of rows.
func (b *Block) Len() int { return len(b.ends) }

// Size returns the memory that the block takes, in bytes.
func (b *Block) Size() int64 { return int64(cap(b.data) + 4*cap(b.ends)) }

// Row returns row i, counted from 0, without its newline. The caller must not change it.
func (b *Block) Row(i int) []byte {
	start := int32(0)
	if i > 0 {
		start = b.ends[i-1]
	}
	return b.data[start : b.ends[i]-1]
}

// search returns the first row from i on that is at or behind bound, or Len.
func (b *Block) search(i int, bound string) int {
	return i + sort.Search(b.Len()-i, func(n int) bool { return string(b.Row(i+n)) >= bound })
}

// Cursor walks the rows of one run. Bounds are compared with rows as bytes. After a cursor has left
// the run or a move has failed, Seek, SeekBefore, SeekEnd or Enter must come before Next or
// Previous. It must not be used concurrently.
type Cursor struct {
	run   Run
	n     int64 // number of the block
	block *Block
	i     int // the current row in block
	row   []byte
}

// NewCursor returns a cursor that stands before the first row.
func NewCursor(run Run) *Cursor { return &Cursor{run: run, n: -1, block: new(Block)} }

// Row returns the current row, or nil outside the run. It stays valid, and must not be changed.
func (c *Cursor) Row() []byte { return c.row }

// Next moves to the next row. Behind the last row, Row is nil.
func (c *Cursor) Next(ctx context.Context) error { return c.stand(ctx, c.i+1) }

// Previous moves to the row before. Before the first row, Row is nil.
func (c *Cursor) Previous(ctx context.Context) error { return c.stand(ctx, c.i-1) }

// Enter moves to row i of block n. If the block has no row i, it moves to the neighbouring block,
// or outside the run.
func (c *Cursor) Enter(ctx context.Context, n int64, i int) error {
	if err := c.load(ctx, n); err != nil {
		return err
	}
	return c.stand(ctx, i)
}

// Seek moves to the first row at or behind bound.
func (c *Cursor) Seek(ctx context.Context, bound string) error {
	if err := c.find(ctx, bound); err != nil {
		return err
	}
	return c.stand(ctx, c.block.search(0, bound))
}

// SeekBefore moves to the last row before bound.
func (c *Cursor) SeekBefore(ctx context.Context, bound string) error {
	if err := c.find(ctx, bound); err != nil {
		return err
	}
	return c.stand(ctx, c.block.search(0, bound)-1)
}

// SeekEnd moves to the last row.
func (c *Cursor) SeekEnd(ctx context.Context) error {
	if err := c.load(ctx, c.run.Len()-1); err != nil {
		return err
	}
	return c.stand(ctx, c.block.Len()-1)
}

// Advance moves forward to the first row at or behind bound; that may be the current row. If the
// row is near, Advance costs less than Seek.
func (c *Cursor) Advance(ctx context.Context, bound string) error {
	if c.row == nil || string(c.row) >= bound {
		return nil
	}
	for n := 0; n < 4 && c.i+1 < c.block.Len(); n++ {
		c.i++
		if row := c.block.Row(c.i); string(row) >= bound {
			c.row = row
			return nil
		}
	}
	if string(c.block.Row(c.block.Len()-1)) < bound {
		return c.Seek(ctx, bound)
	}
	return c.stand(ctx, c.block.search(c.i, bound))
}

// find loads the block in which a search for bound begins.
func (c *Cursor) find(ctx context.Context, bound string) error {
	n, err := c.run.Find(ctx, bound)
	if err != nil {
		return err
	}
	return c.load(ctx, n)
}

// load reads block n, unless c has it. A block outside the run has no rows.
func (c *Cursor) load(ctx context.Context, n int64) error {
	if c.n == n {
		return nil
	}
	c.row, c.n, c.block = nil, n, new(Block)
	if n < 0 || n >= c.run.Len() {
		return nil
	}
	b, err := c.run.Block(ctx, n)
	if err != nil {
		c.n = -1
		return err
	}
	c.block = b
	return nil
}

// stand moves to row i of the block. If i is outside, it moves to the neighbouring block.
func (c *Cursor) stand(ctx context.Context, i int) error {
	switch {
	case i < 0 && c.n > 0:
		if err := c.load(ctx, c.n-1); err != nil {
			return err
		}
		i = c.block.Len() - 1
	case i >= c.block.Len() && c.n+1 < c.run.Len():
		if err := c.load(ctx, c.n+1); err != nil {
			return err
		}
		i = 0
	case i < 0 || i >= c.block.Len():
		c.row = nil
		return nil
	}
	c.i, c.row = i, c.block.Row(i)
	return nil
}
