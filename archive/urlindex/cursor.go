package urlindex

import (
	"bytes"
	"context"
	"sort"
)

// cursor walks the lines of one run within a range. It must not be used concurrently.
type cursor struct {
	run *run
	in  Range

	block int64 // number of the block that lines holds, from 0
	lines *lines
	i     int
	at    []byte // the current line; nil at the end
}

// begin returns a cursor on the first line of the range, in the range's direction.
func (r *run) begin(ctx context.Context, in Range) (*cursor, error) {
	c := &cursor{run: r, in: in}
	start := c.start
	if in.Reverse {
		start = c.startReverse
	}
	if err := start(ctx); err != nil {
		return nil, err
	}
	return c, c.pass(ctx)
}

// start moves to the first line at or after the lower bound.
func (c *cursor) start(ctx context.Context) error {
	bound := []byte(c.in.From)
	if c.in.After != nil {
		if h := c.in.After.head(); bytes.Compare(h, bound) > 0 {
			bound = h
		}
	}
	n, err := c.run.find(ctx, string(bound))
	if err != nil {
		return err
	}
	if err := c.enter(ctx, n); err != nil {
		return err
	}
	i := sort.Search(c.lines.len(), func(i int) bool { return bytes.Compare(c.lines.line(i), bound) >= 0 })
	return c.stand(ctx, i)
}

// startReverse moves to the last line before the upper bound or In.After.
func (c *cursor) startReverse(ctx context.Context) error {
	bound := []byte(c.in.To)
	if c.in.After != nil {
		// Start behind all lines of the same URL key and second: pass skips those that are not
		// wanted.
		if h := append(c.in.After.head(), '!'); len(bound) == 0 || bytes.Compare(h, bound) < 0 {
			bound = h
		}
	}
	if len(bound) == 0 {
		if err := c.enter(ctx, c.run.Blocks-1); err != nil {
			return err
		}
		return c.stand(ctx, c.lines.len()-1)
	}
	n, err := c.run.find(ctx, string(bound))
	if err != nil {
		return err
	}
	if err := c.enter(ctx, n); err != nil {
		return err
	}
	i := sort.Search(c.lines.len(), func(i int) bool { return bytes.Compare(c.lines.line(i), bound) >= 0 })
	return c.stand(ctx, i-1)
}

// enter loads block n.
func (c *cursor) enter(ctx context.Context, n int64) (err error) {
	c.block = n
	c.lines, err = c.run.lines(ctx, n)
	return err
}

// stand moves to line i of the block. If i is outside, it moves to the neighbouring block.
func (c *cursor) stand(ctx context.Context, i int) error {
	switch {
	case i < 0 && c.block > 0:
		if err := c.enter(ctx, c.block-1); err != nil {
			return err
		}
		i = c.lines.len() - 1
	case i >= c.lines.len() && c.block+1 < c.run.Blocks:
		if err := c.enter(ctx, c.block+1); err != nil {
			return err
		}
		i = 0
	case i < 0 || i >= c.lines.len():
		c.at = nil
		return nil
	}
	c.i, c.at = i, c.lines.line(i)
	return nil
}

// next moves to the next line of the range.
func (c *cursor) next(ctx context.Context) error {
	if err := c.step(ctx); err != nil {
		return err
	}
	c.bound()
	return nil
}

func (c *cursor) step(ctx context.Context) error {
	if c.in.Reverse {
		return c.stand(ctx, c.i-1)
	}
	return c.stand(ctx, c.i+1)
}

// bound ends the walk at the end of the range.
func (c *cursor) bound() {
	if c.at == nil {
		return
	}
	if !c.in.Reverse && c.in.To != "" && string(c.at) >= c.in.To || c.in.Reverse && string(c.at) < c.in.From {
		c.at = nil
	}
}

// pass skips the lines up to the position after which the range begins.
func (c *cursor) pass(ctx context.Context) error {
	c.bound()
	if c.in.After == nil {
		return nil
	}
	h := c.in.After.head()
	for c.at != nil && bytes.HasPrefix(c.at, h) {
		r, err := parseRow(c.at)
		if err != nil {
			return err
		}
		if d := r.Position().Compare(*c.in.After); d > 0 && !c.in.Reverse || d < 0 && c.in.Reverse {
			return nil
		}
		if err := c.next(ctx); err != nil {
			return err
		}
	}
	return nil
}
