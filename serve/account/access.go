package account

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"sheaf/internal/stream"
	"sheaf/internal/window"
)

// ClosedError says that the account's window is closed.
type ClosedError struct {
	Window *window.Schedule
	Next   time.Time // when it opens again; zero: never
}

func (e *ClosedError) Error() string {
	if e.Next.IsZero() {
		return fmt.Sprintf("downloads are not allowed to this account (window %q)", e.Window)
	}
	return fmt.Sprintf("downloads are allowed from %s, %s (window %q)",
		e.Next.UTC().Format(time.RFC3339), e.Next.In(e.Window.Location()).Format("Monday 2 January 2006 15:04 MST"), e.Window)
}

// DefaultGrace is Access.Grace unless the settings give another.
const DefaultGrace = 15 * time.Minute

// Access lets accounts read, within their windows, rates and quotas.
type Access struct {
	Accounts *Accounts     // tells how accounts change while they read; nil: they do not change
	Meter    *Meter        // counts and limits what accounts read
	Grace    time.Duration // how long a download may continue after its account's window has closed
}

// Begin lets an account begin to read. It fails with a *ClosedError or a *QuotaError. The permit
// must be closed.
func (x *Access) Begin(ctx context.Context, a *Account) (*Permit, error) {
	now := time.Now()
	if !a.Window.Open(now) {
		next, _ := a.Window.Next(now)
		return nil, &ClosedError{Window: a.Window, Next: next}
	}
	flow, err := x.Meter.Begin(ctx, a.Name, a.from, a.limits())
	if err != nil {
		return nil, err
	}
	p := &Permit{account: &Following{account: a}, flow: flow, grace: x.Grace}
	if x.Accounts != nil {
		p.account = x.Accounts.Follow(a)
	}
	p.checkWindow(a, now)
	return p, nil
}

// Permit allows an account to read one file or other answer. It applies the account's window, rate
// and quota as they are now, even if they have changed since Begin. It is used by one goroutine at
// a time.
type Permit struct {
	account *Following
	flow    *Flow
	grace   time.Duration

	mu     sync.Mutex // guards what follows
	window *window.Schedule
	until  time.Time    // when reading ends; zero: never
	closed *ClosedError // the error with which reading ends
}

// Close ends the reading. It may be called again.
func (p *Permit) Close() error {
	p.account.Close()
	return p.flow.Close()
}

// Take waits until some of the next n bytes may be read, and returns how many: a stream.Taker.
// It fails with a *ClosedError if the account's window has been closed for longer than the grace,
// with a *QuotaError when the day's bytes reach twice the quota, and like Following.Account.
func (p *Permit) Take(ctx context.Context, n int64) (int64, error) {
	a, err := p.account.Account()
	if err != nil {
		return 0, err
	}
	if closed := p.checkWindow(a, time.Now()); closed != nil {
		return 0, closed
	}
	return p.flow.Take(ctx, a.limits(), n)
}

// TakeAll counts n bytes as read, at once, and reports whether it did: see Flow.TakeAll.
func (p *Permit) TakeAll(n int64) bool {
	a, err := p.account.Account()
	return err == nil && p.checkWindow(a, time.Now()) == nil && p.flow.TakeAll(a.limits(), n)
}

// checkWindow returns an error if the account's window no longer allows reading. A changed window
// counts from now on; if the new window is closed, its grace begins now.
func (p *Permit) checkWindow(a *Account, now time.Time) *ClosedError {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if p.closed == nil || p.window != a.Window {
			p.window, p.until, p.closed = a.Window, time.Time{}, &ClosedError{Window: a.Window}
			if end := a.Window.Until(now); !end.IsZero() {
				p.until = end.Add(p.grace)
				p.closed.Next, _ = a.Window.Next(end)
			}
		}
		if p.until.IsZero() || !now.After(p.until) {
			return nil
		}
		if p.closed.Next.IsZero() || now.Before(p.closed.Next) {
			return p.closed
		}
		p.closed = nil // it has opened again
	}
}

// Reader returns a reader of the size bytes of r, slowed down by take.
func Reader(ctx context.Context, r io.Reader, size int64, take stream.Taker) io.Reader {
	return &reader{ctx, r, take, 0, size}
}

type reader struct {
	ctx  context.Context
	r    io.Reader
	take stream.Taker
	left int64 // allowed by take and not yet read
	size int64 // not yet allowed by take
}

func (p *reader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if p.left == 0 && p.size > 0 {
		n, err := p.take(p.ctx, min(int64(len(b)), p.size))
		if err != nil {
			return 0, err
		}
		p.left, p.size = n, p.size-n
	}
	if p.left > 0 {
		b = b[:min(p.left, int64(len(b)))]
	}
	n, err := p.r.Read(b) // after the last byte this returns EOF or an error
	p.left = max(0, p.left-int64(n))
	return n, err
}

// Writer returns a writer to w that is slowed down by take.
func Writer(ctx context.Context, w io.Writer, take stream.Taker) io.Writer {
	return &writer{ctx, w, take}
}

type writer struct {
	ctx  context.Context
	w    io.Writer
	take stream.Taker
}

func (p *writer) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := p.take(p.ctx, int64(len(b)-done))
		if err != nil {
			return done, err
		}
		m, err := p.w.Write(b[done : done+int(n)])
		done += m
		if err != nil {
			return done, err
		}
	}
	return done, nil
}
