package serve

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
)

// keep is the size up to which a document's bytes are held in memory. A larger
// one is written anew for every reader.
const keep = 1 << 20

// document is a text that is written out of the catalog: the same bytes each
// time it is written at the same version.
type document struct {
	measured
	write func(context.Context, io.Writer) error
}

// measured is what is known of a document that was written once.
type measured struct {
	size   int64
	sha256 string
	body   []byte // nil where it is larger than keep
}

// document makes a file of what write writes. Key names what it depends on, so
// that its size and digest are not computed at every look.
func (v *visit) document(ctx context.Context, key, name, media string, modified time.Time, write func(context.Context, io.Writer) error) (*entry, error) {
	key = "document " + key + " " + name
	var d document
	if known, ok := v.cache.Get(key); ok {
		d = document{known.(measured), write}
	} else {
		m, err := measure(ctx, write)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		v.cache.Add(key, m, int64(len(m.body))+256)
		d = document{m, write}
	}
	return &entry{
		Node: Node{
			Name: name, Size: d.size, Modified: whole(modified), Type: media,
			SHA256: d.sha256, ETag: `"` + d.sha256[:32] + `"`,
		},
		open: func(context.Context) (ranges, error) { return d, nil },
	}, nil
}

func measure(ctx context.Context, write func(context.Context, io.Writer) error) (measured, error) {
	m := &meter{head: new(bytes.Buffer)}
	digest := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(digest, m), 64<<10)
	if err := errors.Join(write(ctx, out), out.Flush()); err != nil {
		return measured{}, err
	}
	result := measured{size: m.n, sha256: hex.EncodeToString(digest.Sum(nil))}
	if m.head != nil {
		result.body = m.head.Bytes()
	}
	return result, nil
}

// meter counts what is written, and holds it as long as it is not too much.
type meter struct {
	n    int64
	head *bytes.Buffer
}

func (m *meter) Write(p []byte) (int, error) {
	m.n += int64(len(p))
	if m.n > keep {
		m.head = nil
	}
	if m.head != nil {
		m.head.Write(p)
	}
	return len(p), nil
}

// errEnough stops the writing of a document of which no more is wanted.
var errEnough = errors.New("enough")

// OpenRange implements ranges.
func (d document) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if d.size <= keep {
		return io.NopCloser(bytes.NewReader(d.body[off : off+n])), nil
	}
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		part := &slice{w: w, skip: off, left: n}
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
	return &written{PipeReader: r, cancel: cancel, done: done}, nil
}

// written reads what a goroutine writes; Close ends that.
type written struct {
	*io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
}

func (r *written) Close() error {
	r.cancel()
	r.PipeReader.Close()
	<-r.done
	return nil
}

// slice passes on the left bytes that follow the first skip, then says errEnough.
type slice struct {
	w          io.Writer
	skip, left int64
}

func (s *slice) Write(p []byte) (int, error) {
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
