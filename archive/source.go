package archive

import (
	"context"
	"io"
)

// Source reads ranges of a segment's stored bytes: of a file, an object, or a section of a batch.
// OpenRange may be called concurrently. The caller closes the reader.
type Source interface {
	OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error)
}

// FileSource returns the Source of a segment that begins at base in f.
func FileSource(f io.ReaderAt, base int64) Source { return fileSource{f, base} }

type fileSource struct {
	f    io.ReaderAt
	base int64
}

func (s fileSource) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return io.NopCloser(io.NewSectionReader(s.f, s.base+off, n)), nil
}
