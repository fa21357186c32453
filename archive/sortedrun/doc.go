// Package sortedrun is the common base of the catalog and the URL index: rows in order, in
// immutable runs that are merged level by level (the log-structured merge tree of O'Neil et al.,
// 1996).
//
// A row is a line of text. A run is a sequence of rows in ascending order, stored in compressed
// blocks of whole rows. This package sorts rows with bounded memory (Sorter), merges sequences of
// rows (Merge), walks a run forwards and backwards and seeks in it (Cursor), and says which runs to
// merge (FullLevel). It does not know how a run is stored. Each user has a format of its own: it
// encodes the blocks, and finds and reads them for a Cursor (Run).
package sortedrun

import "context"

// Order compares two rows, without their newlines, as bytes.Compare does.
type Order func(a, b []byte) int

// Rows is a sequence of rows in ascending order, or in descending order for a Cursor that goes
// backwards. It must not be used concurrently.
type Rows interface {
	// Row returns the current row without its newline, or nil behind the last one. It is valid
	// until the next call of Next, and must not be changed.
	Row() []byte
	// Next moves to the next row. Behind the last row it does nothing.
	Next(ctx context.Context) error
}

// FullLevel returns the runs to merge next: the runs of the lowest level that has at least fanout
// runs, in their order. It returns nil if no level has so many. A fanout below 2 counts as 2. A
// merged run belongs on the next level, so each row is rewritten once for each level.
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
