package library

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"

	"sheaf/internal/files"
)

// TempFile takes bytes that are written once, and read afterwards as often as wanted: a text that
// takes long to write, an answer or a request's body. They are in memory up to a length, and beyond
// it in a temporary file without a name, which is deleted when nobody refers to it any more.
type TempFile struct {
	Size int64 // bytes written so far

	memory int64                  // length up to which they are in memory
	grow   func(size int64) error // see NewTempFile
	digest hash.Hash
	body   bytes.Buffer
	file   *os.File // nil: they are in memory
}

// NewTempFile returns an empty file, with up to so many bytes in memory. Unless grow is nil, it is
// called before each write beyond them, with the size after the write. Its error ends the writing.
func NewTempFile(memory int64, grow func(size int64) error) *TempFile {
	return &TempFile{memory: memory, grow: grow, digest: sha256.New()}
}

// Write implements io.Writer. It fails with ErrNoSpace if the disk is full, and with the error of
// grow.
func (f *TempFile) Write(p []byte) (int, error) {
	f.digest.Write(p)
	if f.Size += int64(len(p)); f.Size <= f.memory {
		return f.body.Write(p)
	}
	if f.grow != nil {
		if err := f.grow(f.Size); err != nil {
			return 0, err
		}
	}
	if f.file == nil {
		var err error
		if f.file, err = files.Nameless(""); err != nil {
			return 0, NoSpace(err)
		}
		if _, err := f.file.Write(f.body.Bytes()); err != nil {
			return 0, NoSpace(err)
		}
		f.body = bytes.Buffer{}
	}
	n, err := f.file.Write(p)
	return n, NoSpace(err)
}

// SHA256 returns the digest of what was written, in lower-case hexadecimal.
func (f *TempFile) SHA256() string { return hex.EncodeToString(f.digest.Sum(nil)) }

// InMemory reports whether no file was needed so far.
func (f *TempFile) InMemory() bool { return f.file == nil }

// Content returns a reader of what was written.
func (f *TempFile) Content() io.ReadSeeker {
	if f.file == nil {
		return bytes.NewReader(f.body.Bytes())
	}
	return io.NewSectionReader(f.file, 0, f.Size)
}

// OpenRange implements Ranges.
func (f *TempFile) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if off < 0 || n < 0 || off > f.Size-n {
		return nil, fmt.Errorf("range of %d bytes at %d is outside %d", n, off, f.Size)
	}
	if f.file == nil {
		return Bytes(f.body.Bytes()).OpenRange(ctx, off, n)
	}
	return io.NopCloser(io.NewSectionReader(f.file, off, n)), nil
}

// Close deletes the file. Nothing may be read any more.
func (f *TempFile) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
