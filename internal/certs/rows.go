package certs

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/crypto/acme/autocert"

	"sheaf/internal/db"
)

// rows is an autocert.Cache in the database's table acme, which all processes share. It has one
// authority's keys and certificates, and the attempts to get a certificate.
type rows struct {
	db        *sql.DB
	authority string // begins the names of the rows
}

// Get implements autocert.Cache.
func (r rows) Get(ctx context.Context, key string) (value []byte, err error) {
	err = r.db.QueryRowContext(ctx, `SELECT value FROM acme WHERE name = ?`, r.name(key)).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, autocert.ErrCacheMiss
	}
	return value, failed(err)
}

// Put implements autocert.Cache.
func (r rows) Put(ctx context.Context, key string, value []byte) error {
	return r.exec(ctx, `INSERT INTO acme (name, value, at_ms) VALUES (?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value, at_ms = excluded.at_ms`, r.name(key), string(value), db.Millis(time.Now()))
}

// Delete implements autocert.Cache.
func (r rows) Delete(ctx context.Context, key string) error {
	return r.exec(ctx, `DELETE FROM acme WHERE name = ?`, r.name(key))
}

func (r rows) name(key string) string { return r.authority + " " + key }

func (r rows) exec(ctx context.Context, query string, args ...any) error {
	_, err := r.db.ExecContext(ctx, query, args...)
	return failed(err)
}

func failed(err error) error {
	if err != nil {
		return fmt.Errorf("the database's certificates: %w", err)
	}
	return nil
}

// has reports whether the table has a certificate of the name that clients accept now.
func (r rows) has(ctx context.Context, name string, now time.Time) (bool, error) {
	text, err := r.Get(ctx, name)
	if err != nil {
		if errors.Is(err, autocert.ErrCacheMiss) {
			err = nil
		}
		return false, err
	}
	pair, err := tls.X509KeyPair(text, text)
	return err == nil && valid(pair.Leaf, now) == nil && pair.Leaf.VerifyHostname(name) == nil, nil
}

// claim reports whether this process may begin an attempt now. Each attempt that is not followed by
// Delete makes the next one wait longer, in all processes and after restarts, too: authorities
// refuse clients that fail often. If the stored time lies farther ahead than claim ever sets it,
// the clock was set back, and the time counts as past.
func (r rows) claim(ctx context.Context, key string, now time.Time) (mine bool, err error) {
	if err := r.exec(ctx, `INSERT INTO acme (name, value, at_ms) VALUES (?, '0', 0) ON CONFLICT (name) DO NOTHING`, r.name(key)); err != nil {
		return false, err
	}
	value, err := r.Get(ctx, key)
	if err != nil {
		return false, err
	}
	failures, _ := strconv.Atoi(string(value))
	changed, err := db.Exec(ctx, r.db, `UPDATE acme SET value = ?, at_ms = ? WHERE name = ? AND value = ? AND (at_ms <= ? OR at_ms > ?)`,
		strconv.Itoa(failures+1), db.Millis(now.Add(pause(failures))), r.name(key), string(value), db.Millis(now), db.Millis(now.Add(2*longestPause)))
	return changed == 1, failed(err)
}

// pause returns how long after the beginning of an attempt the next one may begin. Let's Encrypt
// allows five failures an hour, and an attempt of autocert may take five minutes.
func pause(failures int) time.Duration {
	switch failures {
	case 0:
		return 6 * time.Minute
	case 1:
		return 20 * time.Minute
	}
	return longestPause
}

const longestPause = time.Hour
