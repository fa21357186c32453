package audit

import (
	"context"
	"net/netip"
	"time"

	"sheaf/internal/guesses"
	"sheaf/internal/peer"
)

// waiting is how many log-ins may wait for the database. What comes beyond that is only in the
// service's log.
const waiting = 1000

// writeTime bounds how long the database may take for a row.
const writeTime = 10 * time.Second

// beginTime bounds how long an act waits for its row before it begins. Many robots that come or go
// at once wait for one another.
const beginTime = 6 * time.Second

// readyTime bounds how long the database may take to show that it can be asked at all.
const readyTime = 3 * time.Second

// repeat is how long log-ins of the same name from the same network with the same outcome are left
// out. Programs log in with each request, and mirrors with several connections: a row of each would
// hide what matters. A wrong password is written each time, as package guesses lets few through.
const repeat = time.Hour

// mostKept bounds how many log-ins are remembered for this. Beyond that all are forgotten, and are
// written once more than needed.
const mostKept = 1 << 16

type loginKey struct {
	kind    Kind
	name    string
	network netip.Prefix
	outcome Outcome
}

// Try writes a row for a log-in that has been checked, as guesses.Limiter tells it. It does not
// wait for the database, so that who downloads is not held up while the database is away. It leaves
// out log-ins by a form, whose handler writes them, and robots' that succeed: the list of robots
// says when each was last seen.
func (l *Log) Try(ctx context.Context, t guesses.Try, result guesses.Result) {
	kind, ok := map[string]Kind{guesses.Account: Account, guesses.Robot: Robot, guesses.Join: Robot, guesses.Operator: Operator}[t.Realm]
	if l == nil || !ok || actOf(ctx) == Login || actOf(ctx) == Join && t.Realm == guesses.Join || kind == Robot && result == guesses.Right {
		return
	}
	r := Row{At: time.Now(), Kind: kind, Name: t.Name, Address: t.Remote, Act: Login, Object: t.Realm}
	switch result {
	case guesses.Right:
		r.Outcome = OK
	case guesses.Wrong:
		r.Outcome, r.Reason = Failed, "wrong name or password"
	default:
		r.Outcome, r.Reason = Refused, "too many wrong passwords from this address"
	}
	if r.Outcome != Failed && !l.fresh(loginKey{kind, t.Name, peer.Network(peer.Addr(t.Remote)), r.Outcome}, r.At) {
		return
	}
	select {
	case l.later <- r:
	default:
		l.log.ErrorContext(ctx, "audit log: too many log-ins wait for the database", "row", r)
	}
}

// fresh reports whether a log-in is to be written, and remembers it.
func (l *Log) fresh(k loginKey, now time.Time) bool {
	k.name = short(k.name, maxName)
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.logins[k]) < repeat {
		return false
	}
	if len(l.logins) >= mostKept {
		clear(l.logins)
	}
	l.logins[k] = now
	return true
}

// mostOfVisitors is how many rows an hour clients of one network cause that are not known, so that
// nobody fills the disk.
const mostOfVisitors = 1000

// admit reports whether a client that is not known may cause one more row.
func (l *Log) admit(address string) bool {
	network := peer.Network(peer.Addr(address))
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.visitors) >= mostKept {
		clear(l.visitors)
	}
	l.visitors[network]++
	return l.visitors[network] <= mostOfVisitors
}

// forget drops log-ins that would be written again, and what counts by the hour.
func (l *Log) forget(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.visitors)
	for k, at := range l.logins {
		if now.Sub(at) >= repeat {
			delete(l.logins, k)
		}
	}
}

func (l *Log) writeLater(ctx context.Context, r Row) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	if err := l.Write(bounded, r); err != nil {
		l.log.ErrorContext(ctx, "a log-in is not in the audit log", "row", r, "err", err)
	}
}
