package sortedrun

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"hash"
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
