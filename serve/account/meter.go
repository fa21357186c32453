package account

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"sheaf/internal/display"
)

// Limits are an account's limits at present. The zero value limits nothing.
type Limits struct {
	Rate  *Rates // of the account; nil: no limit
	Each  *Rates // of each address, if addresses are known; nil: no limit
	Quota int64  // bytes a day; 0: no limit
}

// QuotaError says that an account has used up its bytes of the day.
type QuotaError struct {
	Quota, Used int64
	Next        time.Time // start of the next day, in the service's zone
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("%d bytes were fetched today, of %s that this account may fetch a day; the next day begins %s, %s",
		e.Used, display.FormatBytes(e.Quota), e.Next.UTC().Format(time.RFC3339), e.Next.Format("Monday 2 January 2006 15:04 MST"))
}

// Options are the settings of a Meter. All may be zero.
type Options struct {
	DB   *sql.DB        // keeps the days' counts (migrated); nil: count only in this process
	Line *Rates         // of all accounts together; nil: no limit
	Zone *time.Location // zone in which a quota's day begins; default UTC
	Log  *slog.Logger   // nil: discards
}

// Meter counts and limits the transfers of all accounts. Its methods may be called concurrently.
type Meter struct {
	Options
	line *line

	mu       sync.Mutex // guards what follows
	accounts map[string]*account
}

// account is shared by the transfers of one account. It exists while there are transfers, or bytes
// that are not counted in the database yet.
type account struct {
	name string
	pacer

	flows   int                      // guarded by Meter.mu, as the next two
	origins map[netip.Prefix]*origin // by address, if known
	sweep   int                      // number of origins at which idle ones are removed

	counting sync.Mutex // held while the count is sent to the database

	mu      sync.Mutex // guards what follows
	day     string     // day of the counts
	counted int64      // bytes of the day by all processes, as the database last said
	fresh   int64      // bytes sent since
	asked   bool       // counted is from the database
	end     float64    // virtual end of the last piece; guarded by line.mu
}

// NewMeter returns a meter. If there is a database, Run must be running.
func NewMeter(opt Options) *Meter {
	opt.Zone = cmp.Or(opt.Zone, time.UTC)
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	return &Meter{Options: opt, line: new(line), accounts: make(map[string]*account)}
}

// Flow is a transfer of an account. It must not be used concurrently, and must be closed.
type Flow struct {
	meter   *Meter
	account *account
	origin  *origin // nil if the address is unknown
	closed  sync.Once
}

// Begin begins a transfer of an account, or returns a *QuotaError. In an account that many people
// use, all addresses get the same share, however many transfers they have. The zero prefix means
// that the address is unknown.
func (m *Meter) Begin(ctx context.Context, name string, from netip.Prefix, l Limits) (*Flow, error) {
	m.mu.Lock()
	a := m.accounts[name]
	if a == nil {
		a = &account{name: name, pacer: newPacer()}
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
			// Without its database the service continues with its own count.
			m.Log.WarnContext(ctx, "bandwidth: the day's bytes are not known", "account", name, "err", err)
		}
		if used := m.used(a); used >= l.Quota {
			f.Close()
			return nil, m.usedUp(l.Quota, used)
		}
	}
	return f, nil
}

// Close ends the transfer. It may be called more than once.
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

// forget removes an idle account without uncounted bytes, if there is a database. Meter.mu must be
// held.
func (m *Meter) forget(a *account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// Without a database, the day's count exists only here.
	if a.flows == 0 && a.fresh == 0 && m.DB != nil && a.idle(time.Now()) {
		delete(m.accounts, a.name)
	}
}

// A piece is what the rate allows in 1/perSecond of a second, within the other two bounds.
const (
	perSecond = 32      // pieces a second, approximately
	largest   = 1 << 20 // bytes
	smallest  = 512
)

// Take waits until some of the next n bytes may be sent, and returns how many: at least one byte if
// n is positive, and at most 1 MiB if a rate or a quota limits the account. It counts them as sent.
// l has the account's current limits.
// Take returns a *QuotaError when the day's bytes reach twice the quota, and the context's error
// when it ends.
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
		n = min(n, largest, 2*l.Quota-used)
	}
	if f.origin != nil && (limited || lined || bounded) {
		// So an address has only one piece at a time in the queues that follow.
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

// TakeAll counts n bytes as sent, at once, and reports whether it did. It counts them only if no
// rate applies now, and if they keep the day's bytes within twice the quota.
func (f *Flow) TakeAll(l Limits, n int64) bool {
	now := time.Now()
	_, limited := l.Rate.At(now)
	_, lined := f.meter.Line.At(now)
	_, bounded := l.Each.At(now)
	if limited || lined || bounded && f.origin != nil {
		return false
	}
	a := f.account
	a.mu.Lock()
	defer a.mu.Unlock()
	f.meter.turnover(a)
	if l.Quota > 0 && a.counted+a.fresh+n > 2*l.Quota {
		return false
	}
	a.fresh += n
	return true
}

func piece(rate int64) int64 { return min(max(rate/perSecond, smallest), largest) }

// wait waits until n bytes may be sent at rate bytes a second, one transfer after the other.
func (a *account) wait(ctx context.Context, n, rate int64) error {
	if err := a.enter(ctx); err != nil {
		return err
	}
	defer a.leave()
	return a.pass(ctx, n, rate)
}
