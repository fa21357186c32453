package urlindex

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"

	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
)

// stream reads all lines of a run once, in order. It implements sortedrun.Rows.
type stream struct {
	ref    runRef
	object io.ReadCloser
	lines  *sortedrun.Reader
	rows   int64
}

// openStream returns a stream on the first line of a run.
func openStream(ctx context.Context, st store.Store, ref runRef) (*stream, error) {
	key := ref.Name + "/" + fileRows
	object, err := st.Open(ctx, key, 0, ref.Cdx.Size)
	if err != nil {
		return nil, damaged(err)
	}
	s := &stream{ref: ref, object: object}
	z, err := gzip.NewReader(bufio.NewReaderSize(object, 256<<10))
	if err != nil {
		return nil, errors.Join(s.failed(err), object.Close())
	}
	s.lines = sortedrun.NewReader(z)
	if err := s.Next(ctx); err != nil {
		return nil, errors.Join(err, object.Close())
	}
	return s, nil
}

// Row returns the current line, or nil behind the last one.
func (s *stream) Row() []byte { return s.lines.Row() }

// Next moves to the next line.
func (s *stream) Next(ctx context.Context) error {
	if err := s.lines.Next(ctx); err != nil {
		return s.failed(err)
	}
	if s.Row() == nil {
		if s.rows != s.ref.Rows {
			return fmt.Errorf("%s/%s: has %d rows, the state says %d: %w", s.ref.Name, fileRows, s.rows, s.ref.Rows, ErrCorrupt)
		}
		return nil
	}
	s.rows++
	if err := checkLine(s.Row()); err != nil {
		return fmt.Errorf("%s/%s, row %d: %w", s.ref.Name, fileRows, s.rows, err)
	}
	return nil
}

// failed adds the place to an error. It marks errors from bad bytes as ErrCorrupt, but not errors
// of the store.
func (s *stream) failed(err error) error {
	if _, ok := errors.AsType[flate.CorruptInputError](err); ok || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", err, ErrCorrupt)
	}
	return fmt.Errorf("%s/%s, behind row %d: %w", s.ref.Name, fileRows, s.rows, err)
}

func (s *stream) close() { _ = s.object.Close() } // opened only for reading

// damaged marks an error as ErrCorrupt if an object of the index is missing or too short.
func damaged(err error) error {
	if errors.Is(err, store.ErrNotExist) || errors.Is(err, store.ErrRange) {
		return fmt.Errorf("%w: %w", err, ErrCorrupt)
	}
	return err
}
