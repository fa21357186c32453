package serve

import (
	"context"
	"sync"
	"time"

	"sheaf/internal/window"
	"sheaf/serve/bandwidth"
)

// Permit is when and how fast an account may read one file or other answer: under
// its window, its rate and its quota as they are now, and not as they were when it
// began. It is used by one goroutine at a time.
type Permit struct {
	account *Following
	flow    *bandwidth.Flow
	grace   time.Duration

	mu     sync.Mutex // guards what follows
	window *window.Schedule
	until  time.Time    // when reading ends; zero: never
	closed *ClosedError // what it ends with
}

// Admit fails with a *ClosedError while the account's window is closed.
func (l *Library) Admit(a *Account) error {
	now := time.Now()
	if a.Window.Open(now) {
		return nil
	}
	next, _ := a.Window.Next(now)
	return &ClosedError{Window: a.Window, Next: next}
}

// Begin lets an account begin to read, or says why it may not now, with a
// *ClosedError or a *bandwidth.QuotaError. The permit must be closed. Open does this
// itself; it is for what is read by other ways.
func (l *Library) Begin(ctx context.Context, a *Account) (*Permit, error) {
	if err := l.Admit(a); err != nil {
		return nil, err
	}
	flow, err := l.Meter.BeginFrom(ctx, a.Name, a.from, a.limits())
	if err != nil {
		return nil, err
	}
	p := &Permit{account: &Following{account: a}, flow: flow, grace: l.Grace}
	if l.Accounts != nil {
		p.account = l.Accounts.Follow(a)
	}
	p.look(a, time.Now())
	return p, nil
}

// Close ends the reading; it may be called again.
func (p *Permit) Close() error {
	p.account.Close()
	return p.flow.Close()
}

// Take waits until some of the next n bytes may be read, and returns how many: a
// bandwidth.Taker. It fails with a *ClosedError where the account's window has been
// closed for longer than the library's grace, with a *bandwidth.QuotaError where the
// day's bytes are used up, and with ErrNoAccount where there is no such account any more.
func (p *Permit) Take(ctx context.Context, n int64) (int64, error) {
	a, err := p.account.Account()
	if err != nil {
		return 0, err
	}
	if closed := p.look(a, time.Now()); closed != nil {
		return 0, closed
	}
	return p.flow.Take(ctx, a.limits(), n)
}

// look says whether the account's window has ended the reading at now. A window
// that was changed counts from now on: one that is closed leaves the grace.
func (p *Permit) look(a *Account, now time.Time) *ClosedError {
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
