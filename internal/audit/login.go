package audit

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/passwords"
	"sheaf/internal/peer"
)

// waiting is how many log-ins may wait for the database. Further log-ins are only in the service's
// log.
const waiting = 1000

// writeTime bounds how long the database may take for a row.
const writeTime = 10 * time.Second

// beginTime bounds how long an act waits until its first row is written. If many robots join or
// leave at once, their transactions wait for one another.
const beginTime = 6 * time.Second

// readyTime bounds how long the database may take to answer ready.
const readyTime = 3 * time.Second

// repeat is how long further log-ins with the same name, network and outcome get no row. Programs
// log in with each request, and mirrors on several connections, so a row for each would hide what
// matters. Each wrong password gets a row, since passwords.Limiter lets few through.
const repeat = time.Hour

// mostKept bounds how many log-ins, and how many networks of visitors, are remembered. At the bound
// all are forgotten, so that some of them get more rows than they should.
const mostKept = 1 << 16

type loginKey struct {
	kind    Kind
	name    string
	network netip.Prefix
	outcome Outcome
}

// Try queues a row for a log-in that passwords.Limiter has checked. Run writes the row, so that
// downloads go on while the database is away. Try skips repeated log-ins, unless the password was
// wrong, and log-ins and joins whose handler writes the row. It also skips robots' successes: the
// list of robots says when each was last seen.
func (l *Log) Try(ctx context.Context, t passwords.Try, result passwords.Result) {
	kind, ok := map[string]Kind{passwords.Account: Account, passwords.Robot: Robot, passwords.Join: Robot, passwords.Operator: Operator}[t.Realm]
	if l == nil || !ok || actOf(ctx) == Login || actOf(ctx) == Join && t.Realm == passwords.Join || kind == Robot && result == passwords.Right {
		return
	}
	r := Row{At: time.Now(), Kind: kind, Name: t.Name, Address: t.Remote, Act: Login, Object: t.Realm}
	switch result {
	case passwords.Right:
		r.Outcome = OK
	case passwords.Wrong:
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

// fresh reports whether a log-in gets a row, and remembers the log-in.
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

// mostOfVisitors is how many rows an hour the unknown clients of one network may cause, so that
// nobody fills the disk.
const mostOfVisitors = 1000

// admit reports whether an unknown client may cause one more row, and counts that row.
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

// visit is the key of a row of visitors' acts: equal acts within a minute share one row.
type visit struct {
	name    string
	network netip.Prefix
	act     Act
	object  string
	outcome Outcome
}

// Others is the object of rows for visitors' acts beyond visitsOfNetwork or visitsOfAll.
const Others = "(others)"

// How many rows an hour visitors of one network, and all visitors, may cause before their further
// acts share rows.
const visitsOfNetwork, visitsOfAll = 200, 5000

// writeVisit writes a row for an act of a visitor that Begin has not recorded. Equal acts within a
// minute share a row, which counts them. Beyond visitsOfNetwork and visitsOfAll, all acts of a
// network, or of all visitors, share one row a minute for each outcome.
func (l *Log) writeVisit(ctx context.Context, r Row) error {
	r.At = time.Now()
	k, id := l.findVisit(&r)
	if id != 0 {
		n, err := db.Exec(ctx, l.db, `UPDATE audit SET count = count + 1 WHERE id = ?`, id)
		if err != nil {
			return fmt.Errorf("audit log: %w", err)
		}
		if n > 0 {
			return nil
		}
	}
	id, err := Insert(ctx, l.db, r)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.visits[k] = id
	return nil
}

// findVisit returns the row's key and the ID of the written row with that key. If there is no such
// row, it counts a new row and returns 0. Beyond the bounds it replaces the fields of r in which
// acts differ, so that the acts share a row.
func (l *Log) findVisit(r *Row) (k visit, id int64) {
	of := func() visit {
		return visit{short(r.Name, maxName), peer.Network(peer.Addr(r.Address)), r.Act, short(r.Object, maxObject), r.Outcome}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if minute := r.At.Unix() / 60; minute != l.minute {
		l.minute = minute
		clear(l.visits)
	}
	network := peer.Network(peer.Addr(r.Address))
	if k = of(); l.visits[k] != 0 {
		return k, l.visits[k]
	}
	if l.visitors[network] >= visitsOfNetwork {
		r.Name, r.Act, r.Object, r.Reason = "", Change, Others, ""
	}
	if l.everyone >= visitsOfAll {
		r.Name, r.Act, r.Object, r.Reason, r.Address = "", Change, Others, "", ""
	}
	if k = of(); l.visits[k] == 0 {
		l.visitors[network]++
		l.everyone++
	}
	return k, l.visits[k]
}

// forget drops log-ins older than repeat, and clears the hourly counts of visitors.
func (l *Log) forget(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.visitors)
	l.everyone = 0
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
