package foreign

import (
	"bytes"
	"io"
	"os"
)

// inMemory is how much of a record's block is held in memory; a longer one goes to a file.
const inMemory = 1 << 20

// block is a record's block, to be read more than once. It is used for one record after another.
type block struct {
	dir  string
	mem  bytes.Buffer
	file *os.File // nil: all is in mem
	size int64
}

// fill takes what r gives.
func (b *block) fill(r io.Reader) error {
	if err := b.reset(); err != nil {
		return err
	}
	n, err := io.CopyN(&b.mem, r, inMemory)
	if b.size = n; err == io.EOF {
		return nil
	} else if err != nil {
		return err
	}
	if b.file, err = os.CreateTemp(b.dir, "block-*"); err != nil {
		return err
	}
	os.Remove(b.file.Name()) // it goes when it is closed, or with the process
	if _, err := b.file.Write(b.mem.Bytes()); err != nil {
		return err
	}
	b.mem.Reset()
	more, err := io.Copy(b.file, r)
	b.size += more
	return err
}

// from reads the block from off on.
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
