package library

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"sheaf/internal/cache"
)

// Document is a text that is computed. It has the same bytes each time it is written.
type Document struct {
	Name     string
	Type     string // media type
	Modified time.Time
	Key      string // everything that the bytes depend on, besides Name
	Write    func(context.Context, io.Writer) error

	// Spools keeps the bytes of a long document. Its Write must then not use anything that the
	// caller releases. If Spools is nil, the document is written again for every reader.
	Spools *Spools
}

// maxHeld is the size up to which a document's bytes are kept in memory.
const maxHeld = 1 << 20

// Entry returns the file. It writes the document once to measure it, unless memo has its size and
// digest.
func (d *Document) Entry(ctx context.Context, memo *cache.Memo) (*Entry, error) {
	key := d.memoKey()
	var m *measured
	if known, ok := memo.Get(key); ok {
		m = known.(*measured)
	} else {
		var err error
		if m, err = d.measure(ctx, key); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		memo.Add(key, m, int64(len(m.body))+256)
	}
	return &Entry{
		Node: Node{
			Name: d.Name, Size: m.size, Modified: Seconds(d.Modified), Type: d.Type,
			SHA256: m.sha256, ETag: `"` + m.sha256[:32] + `"`,
		},
		Open: func(context.Context) (Ranges, error) {
			if d.Spools != nil {
				return spoolRanges{m, d.Spools, key, d.Write}, nil
			}
			return documentRanges{m, d.Write}, nil
		},
	}, nil
}

// Known reports whether memo has the document's size and digest, so that Entry need not write it.
func (d *Document) Known(memo *cache.Memo) bool {
	_, known := memo.Get(d.memoKey())
	return known
}

func (d *Document) memoKey() string { return "document " + d.Key + " " + d.Name }

// measured is what is known of a document that was written once.
type measured struct {
	size   int64
	sha256 string
	body   []byte // nil if it is larger than maxHeld
}

// measure writes the document once, and returns its size and digest.
func (d *Document) measure(ctx context.Context, key string) (*measured, error) {
	if d.Spools != nil {
		text, err := d.Spools.open(ctx, key, d.Write)
		if err != nil {
			return nil, err
		}
		if text.file != nil {
			d.Spools.release(text)
		}
		return &text.measured, nil
	}
	// Not shared with other callers: what Write reads may be released when this caller goes.
	m, digest := new(measured), sha256.New()
	count := writerFunc(func(p []byte) (int, error) {
		if m.size += int64(len(p)); m.size <= maxHeld {
			m.body = append(m.body, p...)
		} else {
			m.body = nil
		}
		return len(p), nil
	})
	out := bufio.NewWriterSize(io.MultiWriter(digest, count), 64<<10)
	err := errors.Join(d.Write(ctx, out), out.Flush())
	m.sha256 = hex.EncodeToString(digest.Sum(nil))
	return m, err
}

// held returns a range of the bytes that are in memory.
func (m *measured) held(off, n int64) io.ReadCloser {
	return io.NopCloser(bytes.NewReader(m.body[off : off+n]))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

type documentRanges struct {
	*measured
	write func(context.Context, io.Writer) error
}

// errEnough ends the writing of a document behind the wanted range.
var errEnough = errors.New("enough")

// OpenRange implements Ranges.
func (d documentRanges) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if d.size <= maxHeld {
		return d.held(off, n), nil
	}
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		part := &section{w: w, skip: off, left: n}
		out := bufio.NewWriterSize(part, 64<<10)
		err := errors.Join(d.write(ctx, out), out.Flush())
		switch {
		case part.left == 0:
			err = nil
		case err == nil:
			err = io.ErrUnexpectedEOF
		}
		w.CloseWithError(err)
	}()
	return &documentReader{PipeReader: r, cancel: cancel, done: done}, nil
}

// documentReader reads what a goroutine writes. Close ends the goroutine.
type documentReader struct {
	*io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
}

func (r *documentReader) Close() error {
	r.cancel()
	r.PipeReader.Close()
	<-r.done
	return nil
}

// section skips the first bytes, passes on the next left bytes, and then fails with errEnough.
type section struct {
	w          io.Writer
	skip, left int64
}

func (s *section) Write(p []byte) (int, error) {
	given := len(p)
	jump := min(s.skip, int64(len(p)))
	s.skip -= jump
	p = p[jump:]
	p = p[:min(s.left, int64(len(p)))]
	if len(p) > 0 {
		n, err := s.w.Write(p)
		s.left -= int64(n)
		if err != nil {
			return 0, err
		}
	}
	if s.left == 0 {
		return given, errEnough
	}
	return given, nil
}
