package archive

import (
	"crypto/sha256"
	"hash"
	"hash/crc32"
	"io"
)

// bodySum computes the digests of a record's payload and block. The block is HTTP header and body.
type bodySum struct {
	payload, block hash.Hash // payload is nil if its digest is known
	file           fileSum
}

// fileSum computes the CRC-32 and the length of the file in the tar, and passes its bytes on.
type fileSum struct {
	to  io.Writer
	crc uint32
	n   int64
}

func newBodySum(http []byte) *bodySum {
	s := &bodySum{payload: sha256.New(), block: sha256.New()}
	s.file.to = s
	s.block.Write(http)
	return s
}

// Write adds p to the digests only. A WARC-only record needs no more: its body is in its head.
func (s *bodySum) Write(p []byte) (int, error) {
	if s.payload != nil {
		s.payload.Write(p)
	}
	return s.block.Write(p)
}

func (f *fileSum) Write(p []byte) (int, error) {
	f.crc = crc32.Update(f.crc, crc32.IEEETable, p)
	f.n += int64(len(p))
	return f.to.Write(p)
}
