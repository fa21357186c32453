package lease

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/loop"
)

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
