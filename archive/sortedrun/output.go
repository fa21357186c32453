package sortedrun

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"hash/fnv"
	"io"
)

// Output is a buffered writer that computes the size and the SHA-256 of the written bytes.
type Output struct {
	w    *bufio.Writer
	hash hash.Hash
	size int64
}

// NewOutput returns an Output that writes to w. Call Finish after the last Write.
func NewOutput(w io.Writer) *Output {
	h := sha256.New()
	return &Output{w: bufio.NewWriterSize(io.MultiWriter(w, h), 256<<10), hash: h}
}

// Write implements io.Writer.
func (o *Output) Write(data []byte) (int, error) {
	n, err := o.w.Write(data)
	o.size += int64(n)
	return n, err
}

// Size returns the number of bytes written so far.
func (o *Output) Size() int64 { return o.size }

// Finish writes the buffered bytes, and returns the SHA-256 of all bytes, in hexadecimal.
func (o *Output) Finish() (digest string, err error) {
	err = o.w.Flush()
	return hex.EncodeToString(o.hash.Sum(nil)), err
}

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
