package foreign

import (
	"bytes"
	"io"
	"os"

	"sheaf/internal/files"
)

// maxMemory is the longest block, in bytes, that is kept in memory. A longer block is kept in a
// file.
const maxMemory = 1 << 20

// block keeps the block of the present record, so that it can be read more than once.
type block struct {
	dir  string
	mem  bytes.Buffer
	file *os.File // nil: mem has the whole block
	size int64
}

// fill replaces the block by all that r has.
func (b *block) fill(r io.Reader) error {
	if err := b.reset(); err != nil {
		return err
	}
	n, err := readStart(&b.mem, r)
	if b.size = n; err == io.EOF {
		return nil
	} else if err != nil {
		return err
	}
	if b.file, err = files.Nameless(b.dir); err != nil {
		return err
	}
	if _, err := b.file.Write(b.mem.Bytes()); err != nil {
		return err
	}
	b.mem.Reset()
	more, err := io.Copy(b.file, r)
	b.size += more
	return err
}

// readStart reads up to maxMemory bytes into an empty buffer. It returns io.EOF if r has no more.
func readStart(to *bytes.Buffer, r io.Reader) (int64, error) {
	const most = 64 << 10 // bytes of most blocks and members
	n, err := io.CopyN(to, r, most)
	if err != nil {
		return n, err
	}
	to.Grow(maxMemory) // once: a buffer that doubles takes four times as much
	more, err := io.CopyN(to, r, maxMemory-most)
	return n + more, err
}

// from returns a reader of the block from off on.
func (b *block) from(off int64) io.Reader {
	if b.file == nil {
		return bytes.NewReader(b.mem.Bytes()[min(off, b.size):])
	}
	return io.NewSectionReader(b.file, off, b.size-off)
}

func (b *block) reset() error {
	b.mem.Reset()
	b.size = 0
	f := b.file
	if b.file = nil; f == nil {
		return nil
	}
	return f.Close()
}
