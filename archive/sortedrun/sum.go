package sortedrun

import "hash/fnv"

// Sum is a checksum over rows that does not depend on their order. If the runs before and after a
// merge have the same sum, the merge has lost and added no row.
type Sum struct {
	Rows int64
	Hash uint64
}

// Add adds a row. A row that is added twice counts twice.
func (s *Sum) Add(row []byte) {
	h := fnv.New64a()
	_, _ = h.Write(row) // never fails
	s.AddAll(Sum{1, h.Sum64()})
}

// AddAll adds the rows of another sum.
func (s *Sum) AddAll(o Sum) {
	s.Rows += o.Rows
	s.Hash += o.Hash
}
