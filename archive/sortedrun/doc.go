// Package sortedrun is what the catalog and the URL index have in common: rows in order, in
// immutable runs that are merged level by level (the log-structured merge tree of O'Neil et al.,
// 1996).
//
// A row is a line of text. A run is a sequence of rows in ascending order, stored in compressed
// blocks of whole rows. This package sorts rows with bounded memory (Sorter), merges sequences of
// rows (Merge), walks a run forwards and backwards and seeks in it (Cursor), and says which runs
// are to be merged (FullLevel). It does not know how a run is stored: its users encode blocks, and
// find and read them for a Cursor (Run), each in a format of its own.
package sortedrun

import "context"

// Order compares two rows, without their newlines, as bytes.Compare does.
type Order func(a, b []byte) int

// Rows is a sequence of rows in ascending order; a Cursor that goes backwards is in descending
// order. It must not be used concurrently.
type Rows interface {
	// Row returns the current row without its newline, or nil behind the last one. It is valid
	// until the next call of Next, and must not be changed.
	Row() []byte
	// Next moves to the next row. Behind the last row it does nothing.
	Next(ctx context.Context) error
}

// FullLevel returns the runs that are to be merged next: those of the lowest level that has fanout
// runs or more, in their order, or nil. A fanout below 2 counts as 2. A merged run belongs on the
// next level, so each row is rewritten once a level.
func FullLevel[R any](runs []R, fanout int, level func(R) int) []R {
	levels := make(map[int][]R)
	for _, r := range runs {
		levels[level(r)] = append(levels[level(r)], r)
	}
	var full []R
	for n, some := range levels {
		if len(some) >= max(fanout, 2) && (full == nil || n < level(full[0])) {
			full = some
		}
	}
	return full
}

// Boundary is called before and after each durable write, with the write's name and "before" or
// "after". A fault test stops the process in it. Nil does nothing.
type Boundary func(write, when string)

// Write performs one durable write between two calls of b.
func (b Boundary) Write(name string, write func() error) error {
	if b == nil {
		return write()
	}
	b(name, "before")
	err := write()
	b(name, "after")
	return err
}
