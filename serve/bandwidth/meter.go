package bandwidth

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

// Limits are an account's own.
type Limits struct {
	Rate  *Rates // nil: none
	Each  *Rates // of what each address gets of it, where addresses are known; nil: no limit
	Quota int64  // bytes a day; 0: none
}

// QuotaError says that an account's bytes of the day are used up.
type QuotaError struct {
	Quota, Used int64
	Next        time.Time // when the next day begins, in the service's zone
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("%d bytes were fetched today, of %s that this account may fetch a day; the next day begins %s, %s",
		e.Used, FormatSize(e.Quota), e.Next.UTC().Format(time.RFC3339), e.Next.Format("Monday 2 January 2006 15:04 MST"))
}

// Options of a Meter.
type Options struct {
	DB   *sql.DB        // where the days' bytes are counted, migrated; nil: in this process only
	Line *Rates         // of all accounts together; nil: no limit
	Zone *time.Location // in which a quota's day begins; default UTC
	Log  *slog.Logger   // default: slog.Default
}

// Meter measures and limits what all accounts move. Its methods may be called
// from many goroutines at once.
type Meter struct {
	Options
	line *line

	mu       sync.Mutex // guards what follows
	accounts map[string]*account
}

// account is what the transfers of one account share. It is kept for as long as
// there are any, or bytes of theirs that have not been counted in the database.
type account struct {
	name string
	gate

	flows   int                      // guarded by Meter.mu, as what follows
	origins map[netip.Prefix]*origin // where addresses are known
	sweep   int                      // of so many origins, those that are idle go

	counting sync.Mutex // held while the counts go to the database

	mu      sync.Mutex // guards what follows
	day     string     // that the counts are of
	counted int64      // of the day, by all processes, when the database was last asked
	fresh   int64      // moved since
	asked   bool       // counted is what the database said
	end     float64    // tag of the end of its last piece; guarded by line.mu
}

// New makes a meter. Where there is a database, Run must run.
func New(opt Options) *Meter {
	if opt.Zone == nil {
		opt.Zone = time.UTC
	}
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	return &Meter{Options: opt, line: new(line), accounts: make(map[string]*account)}
}

// Flow is one transfer of an account. It is used by one goroutine at a time, and
// must be closed.
type Flow struct {
	meter   *Meter
	account *account
	origin  *origin // nil where no address is known
	closed  sync.Once
}

// Begin admits a transfer of an account, or fails with a *QuotaError.
func (m *Meter) Begin(ctx context.Context, name string, l Limits) (*Flow, error) {
	return m.BeginFrom(ctx, name, netip.Prefix{}, l)
}

// BeginFrom is Begin for an account that is many people's: the addresses share what it
// gets evenly, however many transfers each has. The zero prefix is no address.
func (m *Meter) BeginFrom(ctx context.Context, name string, from netip.Prefix, l Limits) (*Flow, error) {
	m.mu.Lock()
	a := m.accounts[name]
	if a == nil {
		a = &account{name: name, gate: newGate()}
		m.accounts[name] = a
	}
	a.flows++
	f := &Flow{meter: m, account: a}
	if from.IsValid() {
		f.origin = a.origin(from)
		f.origin.flows++
	}
	m.mu.Unlock()
	if l.Quota > 0 {
		if err := m.ask(ctx, a); err != nil {
			// Without its database the service still serves: what is counted here is what is known.
			m.Log.WarnContext(ctx, "bandwidth: the day's bytes are not known", "account", name, "err", err)
		}
		if used := m.used(a); used >= l.Quota {
			f.Close()
			return nil, m.usedUp(l.Quota, used)
		}
	}
	return f, nil
}

// Close ends the transfer; it may be called again.
func (f *Flow) Close() error {
	f.closed.Do(func() {
		f.meter.mu.Lock()
		defer f.meter.mu.Unlock()
		f.account.flows--
		if f.origin != nil {
			f.origin.flows--
		}
		f.meter.forget(f.account)
	})
	return nil
}

// forget drops an account of which nothing needs to be known. Meter.mu is held.
func (m *Meter) forget(a *account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// Without a database the day's count has no other place.
	if a.flows == 0 && a.fresh == 0 && m.DB != nil && a.idle(time.Now()) {
		delete(m.accounts, a.name)
	}
}

// The pieces in which bytes are let through.
const (
	perSecond = 32      // pieces a second, about
	largest   = 1 << 20 // bytes
	smallest  = 512
)

// Take waits until some of the next n bytes may be moved, and returns how many:
// at least one where n is, and at most a mebibyte. They count as moved. Limits
// are the account's as they are now. It fails with a *QuotaError when the day's
// bytes are twice the quota, and with the context's error.
func (f *Flow) Take(ctx context.Context, l Limits, n int64) (int64, error) {
	if n <= 0 {
		return 0, nil
	}
	m, a := f.meter, f.account
	now := time.Now()
	own, limited := l.Rate.At(now)
	all, lined := m.Line.At(now)
	each, bounded := l.Each.At(now)
	bounded = bounded && f.origin != nil
	n = min(n, largest)
	if limited {
		n = min(n, piece(own))
	}
	if lined {
		n = min(n, piece(all))
	}
	if bounded {
		n = min(n, piece(each))
	}
	if l.Quota > 0 {
		used := m.used(a)
		if used >= 2*l.Quota {
			return 0, m.usedUp(l.Quota, used)
		}
		n = min(n, 2*l.Quota-used)
	}
	if f.origin != nil && (limited || lined || bounded) {
		// So one piece of an address at a time is in the queues behind.
		if err := f.origin.enter(ctx); err != nil {
			return 0, err
		}
		defer f.origin.leave()
	}
	if bounded {
		if err := f.origin.pass(ctx, n, each); err != nil {
			return 0, err
		}
	}
	if limited {
		if err := a.wait(ctx, n, own); err != nil {
			return 0, err
		}
	}
	if lined {
		if err := m.line.wait(ctx, a, n, all); err != nil {
			return 0, err
		}
	}
	if err := ctx.Err(); err != nil {
		return 0, context.Cause(ctx)
	}
	m.moved(a, n)
	return n, nil
}

func piece(rate int64) int64 { return min(max(rate/perSecond, smallest), largest) }

// wait lets n bytes through at rate bytes a second, one transfer after the other.
func (a *account) wait(ctx context.Context, n, rate int64) error {
	if err := a.enter(ctx); err != nil {
		return err
	}
	defer a.leave()
	return a.pass(ctx, n, rate)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
