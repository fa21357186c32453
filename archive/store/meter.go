package store

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"sync"
	"time"
)

// Usage counts one kind of operation.
type Usage struct {
	Calls   int64   `json:"calls"`
	Failed  int64   `json:"failed"`  // calls that failed with an error that Store does not define
	Bytes   int64   `json:"bytes"`   // transferred bytes, also of calls that failed
	Seconds float64 `json:"seconds"` // total time spent in the store
}

// Usages has the counts of all operations. Open includes its readers' bytes, seconds and failures.
type Usages struct {
	Put    Usage `json:"put"`
	Open   Usage `json:"open"`
	Stat   Usage `json:"stat"`
	List   Usage `json:"list"`
	Delete Usage `json:"delete"`
}

// Meter is a Store that counts its operations and logs them: successes at debug level, failures as
// warnings, also if a Retry above tries the operation again.
type Meter struct {
	Store
	Log *slog.Logger // may be set before the first operation; nil: nothing is logged
	mu  sync.Mutex   // guards sum
	sum Usages
}

// NewMeter returns a Meter of a store. Its counts begin at zero.
func NewMeter(s Store) *Meter { return &Meter{Store: s} }

// Unwrap implements Wrapper.
func (m *Meter) Unwrap() Store { return m.Store }

// Usages returns the counts so far.
func (m *Meter) Usages() Usages {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sum
}

func (m *Meter) add(u *Usage, calls, bytes int64, since time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u.Calls += calls
	u.Bytes += bytes
	u.Seconds += time.Since(since).Seconds()
	if err != nil && err != io.EOF && !known(err) {
		u.Failed++
	}
}

// log writes a line about an operation, with the ID of the request in ctx. Errors that Store
// defines are not failures, nor is the end of the caller's context.
func (m *Meter) log(ctx context.Context, operation, key string, since time.Time, err error) {
	switch {
	case m.Log == nil:
	case err == nil || known(err) || ctx.Err() != nil:
		m.Log.DebugContext(ctx, "store: done", "operation", operation, "object", key, "took", time.Since(since), "err", err)
	default:
		m.Log.WarnContext(ctx, "store: failed", "operation", operation, "object", key, "took", time.Since(since), "err", err)
	}
}

// known reports whether err is an error that Store defines, rather than a failure.
func known(err error) bool {
	for _, answer := range []error{ErrExists, ErrNotExist, ErrKey, ErrSize, ErrRange} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// Put implements Store.
func (m *Meter) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	start, body := time.Now(), countingReader{r: r}
	err := m.Store.Put(ctx, key, &body, size)
	m.add(&m.sum.Put, 1, body.n, start, err)
	m.log(ctx, "put", key, start, err)
	return err
}

// Open implements Store.
func (m *Meter) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	start := time.Now()
	r, err := m.Store.Open(ctx, key, off, n)
	m.add(&m.sum.Open, 1, 0, start, err)
	m.log(ctx, "open", key, start, err)
	if err != nil {
		return nil, err
	}
	return &meteredReader{ReadCloser: r, meter: m, failed: func(err error) { m.log(ctx, "read", key, start, err) }}, nil
}

// Stat implements Store.
func (m *Meter) Stat(ctx context.Context, key string) (Info, error) {
	start := time.Now()
	info, err := m.Store.Stat(ctx, key)
	m.add(&m.sum.Stat, 1, 0, start, err)
	m.log(ctx, "stat", key, start, err)
	return info, err
}

// Delete implements Store.
func (m *Meter) Delete(ctx context.Context, key string) error {
	start := time.Now()
	err := m.Store.Delete(ctx, key)
	m.add(&m.sum.Delete, 1, 0, start, err)
	m.log(ctx, "delete", key, start, err)
	return err
}

// List implements Store. The time that its caller spends between objects is not counted.
func (m *Meter) List(ctx context.Context, prefix, after string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		var failed error
		calls, start := int64(1), time.Now()
		defer func(begun time.Time) { m.log(ctx, "list", prefix, begun, failed) }(start)
		for info, err := range m.Store.List(ctx, prefix, after) {
			m.add(&m.sum.List, calls, 0, start, err)
			failed = err
			if !yield(info, err) {
				return
			}
			calls, start = 0, time.Now()
		}
		m.add(&m.sum.List, calls, 0, start, nil)
	}
}

// countingReader counts the bytes of a body. It is no io.Seeker, but a Retry needs one: wrap a
// Meter in a Retry, not a Retry in a Meter.
type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

type meteredReader struct {
	io.ReadCloser
	meter  *Meter
	failed func(error)
}

func (r *meteredReader) Read(p []byte) (int, error) {
	start := time.Now()
	n, err := r.ReadCloser.Read(p)
	r.meter.add(&r.meter.sum.Open, 0, int64(n), start, err)
	if err != nil && err != io.EOF {
		r.failed(err)
	}
	return n, err
}
