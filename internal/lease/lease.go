// Package lease lets one process at a time do work that two must not do at once, such as
// publishing. A lease is granted by the control database (DB), or by a majority of the service's
// own processes (package quorum).
//
// Every Locker promises:
//
//   - Waiters for a name get it in the order in which they asked; none waits for ever. A holder
//     or waiter that does not answer for the TTL loses its place.
//   - A holder's token is higher than that of every earlier holder of the name, and higher than any
//     number given to Raise.
//   - The holder's context ends when the holder can no longer be sure of its lease. Even so, a
//     machine that was suspended may believe in its lease for a moment while another process has
//     it. So a lease only saves work; for correctness, the guarded resource must remember the
//     highest token that it has seen, and refuse lower ones.
//
// DB is as available as its database. A quorum works while any majority of its servers does,
// through failures and changes of the servers.
package lease

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/loop"
)

// ErrLost is the cause of a holder's context when its lease is no longer certain. If the work fails
// because of that, Do's error wraps ErrLost.
var ErrLost = errors.New("the lease is lost")

// Locker grants leases. Its methods may be called concurrently.
type Locker interface {
	// Do waits for its turn, calls f while it holds the name, and releases the name. If the lease
	// is lost, f's context ends with ErrLost as its cause. f must pass the token with every write
	// to the guarded resource. Do returns f's error, or the reason why f was not called.
	Do(ctx context.Context, name string, f func(ctx context.Context, token int64) error) error
	// Raise makes all further tokens of the name higher than least. Call it when the Locker does
	// not know the old tokens: after restoring the database from a backup, for a new quorum, or
	// when changing from one Locker to another.
	Raise(ctx context.Context, name string, least int64) error
}

// Options are the settings that all Lockers have.
type Options struct {
	TTL    time.Duration // a holder that does not answer for this time loses the lease; 10 s if zero
	Holder string        // name of this process, for people; that of the Presence if empty
	Log    *slog.Logger  // nil: discards
}

// Fill sets the defaults of TTL and Log.
func (o *Options) Fill() {
	if o.TTL <= 0 {
		o.TTL = 10 * time.Second
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
}

// releasing is the time-out for releasing a lease. A lease that is not released ends by itself.
const releasing = 5 * time.Second

// Under is for implementations of Locker. It calls f and, concurrently, keep, which prolongs the
// lease. keep returns nil when its context ends, or ErrLost when the lease is lost; then f's
// context ends.
func Under(ctx context.Context, token int64, keep func(context.Context) error, f func(context.Context, int64) error) error {
	held, cancel := context.WithCancelCause(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() { cancel(keep(held)) })
	defer keeping.Wait()
	defer cancel(nil)
	err := f(held, token)
	if cause := context.Cause(held); err != nil && errors.Is(cause, ErrLost) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// DB grants leases through the control database. Each name has a queue of rows, numbered by tokens
// in order of arrival; the first row is the holder's. Each waiter and holder counts up a beat in
// its own row. If the beat of a row ahead stands still for the TTL, a waiter removes that row. No
// clocks are compared, so it does not matter if a clock is set or machines' clocks differ.
type DB struct {
	db       *sql.DB
	presence *Presence
	opt      Options
}

// NewDB returns a DB on a database that internal/db has opened. Processes that share presence's
// directory notice at once when one of them has died. presence may be nil.
func NewDB(db *sql.DB, presence *Presence, opt Options) *DB {
	opt.Fill()
	if opt.Holder == "" {
		opt.Holder = rand.Text()
		if presence != nil {
			opt.Holder = presence.Name()
		}
	}
	return &DB{db: db, presence: presence, opt: opt}
}

// row is one row of a name's queue.
type row struct {
	token  int64
	beat   int64
	holder string
}

// longestLook is the longest interval at which a waiter looks at the queue.
const longestLook = 200 * time.Millisecond

// errPassedOver says that another process has removed this process's row.
var errPassedOver = errors.New("removed from the queue: its beat was not seen for too long")

// Do implements Locker.
func (d *DB) Do(ctx context.Context, name string, f func(context.Context, int64) error) error {
	for {
		w := &waiter{DB: d, name: name}
		err := w.enter(ctx)
		if err == nil {
			err = w.wait(ctx)
		}
		switch {
		case errors.Is(err, errPassedOver):
			continue
		case err != nil:
			w.leave(ctx)
			return fmt.Errorf("lease %s: %w", name, err)
		}
		defer w.leave(ctx)
		return Under(ctx, w.token, w.keep, f)
	}
}

// Raise implements Locker.
func (d *DB) Raise(ctx context.Context, name string, least int64) error {
	_, err := d.db.ExecContext(ctx, `INSERT INTO leases (name, token) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE leases.token < excluded.token`, name, least)
	if err != nil {
		return fmt.Errorf("lease %s: raise: %w", name, err)
	}
	return nil
}

// waiter is one call of Do. It holds its row, and the beats that it has seen in the rows ahead.
type waiter struct {
	*DB
	name  string
	token int64     // 0: there is no row
	beat  time.Time // start of the request that last counted up the row's beat
	seen  map[int64]sighting
}

// sighting is the beat of another row, and the time since which the beat has stood still.
type sighting struct {
	beat  int64
	since time.Time
}

// enter adds a row at the end of the queue. The token comes from a counter in a row instead of a
// sequence, so that rows become visible in the order of their tokens.
func (w *waiter) enter(ctx context.Context) error {
	w.beat = time.Now()
	return db.Transact(ctx, w.db, nil, func(tx *sql.Tx) error {
		var token int64
		err := tx.QueryRowContext(ctx, `INSERT INTO leases (name, token) VALUES (?, 1)
			ON CONFLICT (name) DO UPDATE SET token = leases.token + 1 RETURNING token`, w.name).Scan(&token)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO lease_queue (name, token, holder) VALUES (?, ?, ?)`, w.name, token, w.opt.Holder); err != nil {
			return err
		}
		w.token = token // set before the commit, whose outcome may stay unknown
		return nil
	})
}

// wait waits until the row is the first in the queue.
func (w *waiter) wait(ctx context.Context) error {
	w.seen = make(map[int64]sighting)
	for {
		if time.Since(w.beat) > w.opt.TTL/3 {
			if err := w.count(ctx); err != nil {
				return err
			}
		}
		ahead, err := w.ahead(ctx)
		if err != nil {
			return err
		}
		if len(ahead) == 0 {
			return nil
		}
		for _, r := range ahead {
			if err := w.judge(ctx, r); err != nil {
				return err
			}
		}
		if !loop.Pause(ctx, min(w.opt.TTL/50, longestLook)) {
			return context.Cause(ctx)
		}
	}
}

// ahead returns the rows before the waiter's own, or errPassedOver if its own is gone.
func (w *waiter) ahead(ctx context.Context) (ahead []row, err error) {
	ahead, err = db.List(ctx, w.db, func(rows *sql.Rows, r *row) error { return rows.Scan(&r.token, &r.beat, &r.holder) },
		`SELECT token, beat, holder FROM lease_queue WHERE name = ? AND token <= ? ORDER BY token`, w.name, w.token)
	switch {
	case err != nil:
		return nil, err
	case len(ahead) == 0 || ahead[len(ahead)-1].token != w.token:
		return nil, errPassedOver
	}
	return ahead[:len(ahead)-1], nil
}

// judge removes another process's row if that process has died or the row's beat has stood still
// for the TTL.
func (w *waiter) judge(ctx context.Context, r row) error {
	was, ok := w.seen[r.token]
	if !ok || was.beat != r.beat {
		was = sighting{r.beat, time.Now()}
		w.seen[r.token] = was
	}
	gone := time.Since(was.since) > w.opt.TTL
	if !gone && w.presence != nil {
		var err error
		if gone, err = w.presence.Gone(r.holder); err != nil {
			return err
		}
	}
	if !gone {
		return nil
	}
	// If the process has counted up the beat since, the row stays.
	n, err := db.Exec(ctx, w.db, `DELETE FROM lease_queue WHERE name = ? AND token = ? AND beat = ?`, w.name, r.token, r.beat)
	if err != nil || n == 0 {
		return err
	}
	w.opt.Log.WarnContext(ctx, "lease: removed a holder or waiter that does not answer", "lease", w.name, "fence", r.token, "holder", r.holder)
	return nil
}

// count counts up the beat, to show other processes that this process is alive.
func (w *waiter) count(ctx context.Context) error {
	at := time.Now()
	n, err := db.Exec(ctx, w.db, `UPDATE lease_queue SET beat = beat + 1 WHERE name = ? AND token = ?`, w.name, w.token)
	if err != nil {
		return err
	}
	if n == 0 {
		return errPassedOver
	}
	w.beat = at
	return nil
}

// keep counts up the beat until ctx ends. It returns ErrLost if the row is gone, or if other
// processes may have seen the beat stand still for the TTL.
func (w *waiter) keep(ctx context.Context) error {
	var last error
	for {
		end := w.beat.Add(w.opt.TTL)
		next := w.beat.Add(w.opt.TTL / 3)
		if soon := time.Now().Add(w.opt.TTL / 20); last != nil && next.Before(soon) {
			next = soon
		}
		if !loop.Pause(ctx, min(time.Until(next), time.Until(end))) {
			return nil
		}
		bounded, cancel := context.WithDeadline(ctx, end)
		last = w.count(bounded)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(last, errPassedOver) || last != nil && !time.Now().Before(end):
			return fmt.Errorf("lease %s: %w: %w", w.name, ErrLost, last)
		case last != nil:
			w.opt.Log.WarnContext(ctx, "lease: not renewed; trying again", "lease", w.name, "until", end, "err", last)
		}
	}
}

// leave removes the row, if there is one.
func (w *waiter) leave(ctx context.Context) {
	if w.token == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releasing)
	defer cancel()
	if _, err := w.db.ExecContext(ctx, `DELETE FROM lease_queue WHERE name = ? AND token = ?`, w.name, w.token); err != nil {
		w.opt.Log.WarnContext(ctx, "lease: not released; it ends by itself", "lease", w.name, "after", w.opt.TTL, "err", err)
	}
}
