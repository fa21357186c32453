package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"time"

	"sheaf/internal/scratch"
)

// spoolBytes bounds what lies in temporary files.
const spoolBytes = 1 << 30

// spool is a text that takes long to write, in a temporary file without a name. The
// file goes when nobody has the spool any more.
type spool struct {
	file   *os.File
	size   int64
	sha256 string
	at     time.Time
}

func newSpool(at time.Time, write func(io.Writer) error) (_ *spool, err error) {
	f, err := scratch.File("")
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
		return nil, err
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, err
	}
	return &spool{file: f, size: size, sha256: hex.EncodeToString(digest.Sum(nil)), at: at}, nil
}

// OpenRange implements ranges.
func (s *spool) OpenRange(_ context.Context, off, n int64) (io.ReadCloser, error) {
	if off < 0 || n < 0 || off > s.size-n {
		return nil, fmt.Errorf("range of %d bytes at %d is outside %d", n, off, s.size)
	}
	return io.NopCloser(io.NewSectionReader(s.file, off, n)), nil
}
