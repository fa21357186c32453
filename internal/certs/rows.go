package certs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"sheaf/internal/db"
)

// rows are what processes share in the database's table acme.
type rows struct{ db *sql.DB }

// get returns a row's value, or "" if there is no such row.
func (r rows) get(ctx context.Context, name string) (string, error) {
	return r.one(ctx, `SELECT value FROM acme WHERE name = ?`, name)
}

// newest returns the value of the row that was written last, of those whose names begin with
// prefix.
func (r rows) newest(ctx context.Context, prefix string) (string, error) {
	return r.one(ctx, `SELECT value FROM acme WHERE substr(name, 1, ?) = ? ORDER BY at_ms DESC LIMIT 1`, len(prefix), prefix)
}

func (r rows) one(ctx context.Context, query string, args ...any) (value string, err error) {
	err = r.db.QueryRowContext(ctx, query, args...).Scan(&value)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("the database's certificates: %w", err)
	}
	return value, nil
}

func (r rows) put(ctx context.Context, name, value string) error {
	return r.exec(ctx, `INSERT INTO acme (name, value, at_ms) VALUES (?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value, at_ms = excluded.at_ms`, name, value, db.Millis(time.Now()))
}

func (r rows) delete(ctx context.Context, name string) error {
	return r.exec(ctx, `DELETE FROM acme WHERE name = ?`, name)
}

func (r rows) exec(ctx context.Context, query string, args ...any) error {
	if _, err := r.db.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("the database's certificates: %w", err)
	}
	return nil
}

// claim reports whether this process may begin an attempt now. Each attempt that is not followed by
// delete makes the next wait longer, in all processes and after restarts too: authorities refuse
// whoever fails often.
func (r rows) claim(ctx context.Context, name string, now time.Time) (mine bool, err error) {
	if err := r.exec(ctx, `INSERT INTO acme (name, value, at_ms) VALUES (?, '0', 0) ON CONFLICT (name) DO NOTHING`, name); err != nil {
		return false, err
	}
	value, err := r.get(ctx, name)
	if err != nil {
		return false, err
	}
	failures, _ := strconv.Atoi(value)
	changed, err := db.Changed(r.db.ExecContext(ctx, `UPDATE acme SET value = ?, at_ms = ? WHERE name = ? AND value = ? AND at_ms <= ?`,
		strconv.Itoa(failures+1), db.Millis(now.Add(pause(failures))), name, value, db.Millis(now)))
	if err != nil {
		return false, fmt.Errorf("the database's certificates: %w", err)
	}
	return changed == 1, nil
}

// pause returns how long after the beginning of an attempt the next may begin. Let's Encrypt allows
// five failures an hour.
func pause(failures int) time.Duration {
	switch failures {
	case 0:
		return time.Minute // more than attemptTime
	case 1:
		return 5 * time.Minute
	case 2:
		return 20 * time.Minute
	}
	return time.Hour
}
