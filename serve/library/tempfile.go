package library

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"sheaf/internal/files"
)

// TempFile is a text that takes long to write, in a temporary file without a name. The file is
// deleted when nobody refers to it any more.
type TempFile struct {
	Size   int64  // bytes
	SHA256 string // lower-case hexadecimal
	file   *os.File
}

// NewTempFile writes a text to a temporary file. It fails with ErrNoSpace if the disk is full.
func NewTempFile(write func(io.Writer) error) (_ *TempFile, err error) {
	f, err := files.Nameless("")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	digest := sha256.New()
	if err := write(io.MultiWriter(f, digest)); err != nil {
		return nil, NoSpace(err)
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, err
	}
	return &TempFile{Size: size, SHA256: hex.EncodeToString(digest.Sum(nil)), file: f}, nil
}

// OpenRange implements Ranges.
func (s *TempFile) OpenRange(_ context.Context, off, n int64) (io.ReadCloser, error) {
	if off < 0 || n < 0 || off > s.Size-n {
		return nil, fmt.Errorf("range of %d bytes at %d is outside %d", n, off, s.Size)
	}
	return io.NopCloser(io.NewSectionReader(s.file, off, n)), nil
}
