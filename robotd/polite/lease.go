package polite

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sheaf/internal/loop"
	"sheaf/internal/wire"
	"sheaf/robotd/config"
)

// Lease says for how long the robot may visit its hosts without hearing from the manager. After
// that the manager may have given them to other robots. Each answer to a list or a heartbeat renews
// it. The time counts from the sending of the request, on a clock that goes on while the process or
// the machine is stopped. The lease is kept in a file. A restart of the machine begins this clock
// anew, and so ends the lease until it is renewed. Its methods may be called concurrently.
//
// A robot that was never given a lease may visit its hosts for ever.
type Lease struct {
	path    string
	changes chan struct{} // has an element after the lease was renewed or ended

	mu  sync.Mutex // guards rec
	rec leaseRecord
}

// leaseRecord is the content of a Lease's file. Times are on the boot's clock.
type leaseRecord struct {
	Boot  string        `json:"boot"`  // names the start of the machine; empty: there is no end
	Until time.Duration `json:"until"` // end of the lease
	For   time.Duration `json:"for"`   // length of the lease
}

// never is the boot of a lease that is over.
const never = "none"

// Instant is a time on the clock of leases.
type Instant time.Duration

// Sent returns the time now, to be passed to Renew with the answer to a request that is sent after.
func Sent() Instant {
	_, now := bootTime()
	return Instant(now)
}

// OpenLease reads the file, if there is one. leased says that the robot's list came with a lease:
// if the file is missing, the lease counts as over.
func OpenLease(path string, leased bool) (*Lease, error) {
	l := &Lease{path: path, changes: make(chan struct{}, 1)}
	if leased {
		l.rec.Boot = never
	}
	return l, config.LoadJSON(path, &l.rec)
}

// Renew takes in the lease of an answer. sent is a time before the request was sent.
func (l *Lease) Renew(sent Instant, lease wire.Lease) error {
	if !lease.Renewed {
		return nil
	}
	var rec leaseRecord
	if lease.For > 0 {
		boot, _ := bootTime()
		rec = leaseRecord{Boot: boot, Until: time.Duration(sent) + lease.For, For: lease.For}
	}
	return l.set(rec)
}

// End ends the lease until it is renewed.
func (l *Lease) End() error { return l.set(leaseRecord{Boot: never}) }

func (l *Lease) set(rec leaseRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rec == rec {
		return nil
	}
	l.rec = rec
	loop.Offer(l.changes, struct{}{})
	return config.SaveJSON(l.path, rec)
}

// Left returns for how long visits may still begin, and for how long they may last; zero or less:
// no visit may. ok is false if there is no end.
func (l *Lease) Left() (begin, last time.Duration, ok bool) {
	l.mu.Lock()
	rec := l.rec
	l.mu.Unlock()
	if rec.Boot == "" {
		return 0, 0, false
	}
	boot, now := bootTime()
	if boot != rec.Boot {
		return 0, 0, true
	}
	last = rec.Until - now
	return last - wire.LeaseMargin(rec.For), last, true
}

// MayVisit reports whether a visit may begin now.
func (l *Lease) MayVisit() bool {
	begin, _, ok := l.Left()
	return !ok || begin > 0
}

// ErrLeaseOver says that the robot must not visit its hosts until the manager renews its lease.
var ErrLeaseOver = errors.New("the lease of the robot's hosts is over")

// Bound returns a context that ends when the lease would end without a renewal. cancel must be
// called.
func (l *Lease) Bound(ctx context.Context) (_ context.Context, cancel func()) {
	_, last, ok := l.Left()
	if !ok {
		return ctx, func() {}
	}
	ctx, stop := context.WithCancelCause(ctx)
	timer := time.AfterFunc(last, func() { stop(ErrLeaseOver) })
	return ctx, func() {
		timer.Stop()
		stop(nil)
	}
}

// bootTime returns a name for the machine's present boot and the time since then. That time goes on
// while the process is stopped and while the machine sleeps, and is not changed when the machine's
// clock is set (CLOCK_BOOTTIME, clock_gettime(2)).
func bootTime() (boot string, now time.Duration) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil { // every Linux since 2.6.39 has it
		return never, 0
	}
	return bootID(), time.Duration(ts.Nano())
}

var bootID = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil { // no lease outlasts the process
		return rand.Text()
	}
	return strings.TrimSpace(string(id))
})
