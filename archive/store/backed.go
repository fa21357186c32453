package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Backed is a Store with a second copy. It reads an object from the copy if its own store lacks it,
// has only a part of it or cannot read it, or if Doubt has named it. Its own store does everything
// else.
type Backed struct {
	Store
	second func(context.Context) (Store, error)
	log    *slog.Logger

	mu     sync.Mutex // guards opened, failed and tried
	opened Store      // the copy; nil: not opened yet
	failed error      // of the last attempt to open the copy
	tried  time.Time

	doubted  *lru.Cache[string, time.Time] // when Doubt has named the object
	recourse atomic.Int64
}

const (
	doubtedKeys = 10_000
	doubtedFor  = 10 * time.Minute // then the store is read again: the object may be healed
	copyOpens   = 10 * time.Second // limit for opening the copy, and the pause after a failure
)

// NewBacked returns the Store to use, and the Backed in it. The Store is Local or a Presigner if s
// is. second opens the copy when it is needed. If second fails, it is called again after a pause.
func NewBacked(s Store, second func(context.Context) (Store, error), log *slog.Logger) (Store, *Backed) {
	doubted, _ := lru.New[string, time.Time](doubtedKeys) // fails for sizes below 1 only
	b := &Backed{Store: s, second: second, log: log, doubted: doubted}
	if files, ok := AsLocal(s); ok {
		return &localBacked{b, files}, b
	}
	if urls, ok := AsPresigner(s); ok {
		return &presigningBacked{b, urls}, b
	}
	return b, b
}

// Reads returns how many times an object was read from the copy.
func (b *Backed) Reads() int64 { return b.recourse.Load() }

// Doubt reports that an object's bytes are damaged. For some minutes, the object is then read from
// the copy. Doubt returns false if the object is doubted already: then it is no use to read the
// object again.
func (b *Backed) Doubt(key string) bool {
	if b.doubts(key) {
		return false
	}
	b.doubted.Add(key, time.Now())
	return true
}

func (b *Backed) doubts(key string) bool {
	since, ok := b.doubted.Get(key)
	return ok && time.Since(since) < doubtedFor
}

// Open implements Store.
func (b *Backed) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if b.doubts(key) {
		if r, err := b.fromCopy(ctx, key, off, n); err == nil {
			return r, nil
		}
	}
	r, err := b.Store.Open(ctx, key, off, n)
	if err != nil {
		return b.instead(ctx, key, off, n, err)
	}
	return &backedReader{ctx: ctx, b: b, key: key, off: off, left: n, in: r}, nil
}

// fromCopy opens the copy's object, and counts the read.
func (b *Backed) fromCopy(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	second, err := b.copy(ctx)
	if err != nil {
		return nil, err
	}
	r, err := second.Open(ctx, key, off, n)
	if err == nil {
		b.recourse.Add(1)
	}
	return r, err
}

func (b *Backed) copy(ctx context.Context) (Store, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened != nil {
		return b.opened, nil
	}
	if b.failed != nil && time.Since(b.tried) < copyOpens {
		return nil, b.failed // so that readers do not each wait for second to fail again
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), copyOpens)
	defer cancel()
	opened, err := b.second(ctx)
	b.failed, b.tried = err, time.Now()
	if err != nil {
		return nil, err
	}
	b.opened = opened
	return opened, nil
}

// instead opens the copy's object after the store has failed with the error failed. It returns
// failed if the copy does not have the object.
func (b *Backed) instead(ctx context.Context, key string, off, n int64, failed error) (io.ReadCloser, error) {
	if ctx.Err() != nil || errors.Is(failed, ErrKey) {
		return nil, failed
	}
	r, err := b.fromCopy(ctx, key, off, n)
	switch {
	case err == nil:
	case errors.Is(err, ErrNotExist):
		return nil, failed
	case errors.Is(err, ErrRange):
		return nil, err
	default:
		return nil, fmt.Errorf("%w (the copy: %v)", failed, err)
	}
	if b.Doubt(key) {
		b.log.ErrorContext(ctx, "store: an object cannot be read, and comes from the copy", "object", key, "err", failed)
	}
	return r, nil
}

// backedReader reads the store's object. From the first byte on that it cannot read, it reads the
// copy's object.
type backedReader struct {
	ctx       context.Context
	b         *Backed
	key       string
	off, left int64 // left < 0: up to the end
	in        io.ReadCloser
	second    bool // in is the copy's
}

func (r *backedReader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	r.off += int64(n)
	if r.left >= 0 {
		r.left -= int64(n)
	}
	if err == nil || err == io.EOF || r.second {
		return n, err
	}
	in, err := r.b.instead(r.ctx, r.key, r.off, r.left, err)
	if err != nil {
		return n, err
	}
	_ = r.in.Close() // it has failed
	r.in, r.second = in, true
	return n, nil
}

func (r *backedReader) Close() error { return r.in.Close() }

// localBacked is a Backed over local files.
type localBacked struct {
	*Backed
	files Local
}

// OpenFile implements Local. It opens the copy's file only if the copy is local, too.
func (b *localBacked) OpenFile(key string) (*os.File, error) {
	if !b.doubts(key) {
		f, err := b.files.OpenFile(key)
		if !errors.Is(err, ErrNotExist) {
			return f, err
		}
	}
	if second, err := b.copy(context.Background()); err == nil {
		if files, ok := AsLocal(second); ok {
			if f, err := files.OpenFile(key); err == nil {
				b.recourse.Add(1)
				return f, nil
			}
		}
	}
	return b.files.OpenFile(key)
}

// presigningBacked is a Backed over a Presigner.
type presigningBacked struct {
	*Backed
	urls Presigner
}

// Presign implements Presigner. It fails for objects that come from the copy.
func (b *presigningBacked) Presign(ctx context.Context, key string, o PresignOptions) (*url.URL, error) {
	if b.doubts(key) {
		return nil, fmt.Errorf("presign %s: the object is damaged and comes from the copy", key)
	}
	return b.urls.Presign(ctx, key, o)
}
