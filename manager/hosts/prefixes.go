package hosts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
)

// maxPrefixes limits the refused prefixes of one host, since each makes robots' lists longer.
const maxPrefixes = 100

// ErrPrefixNotRefused is AllowPrefix's error for a prefix that is not refused.
var ErrPrefixNotRefused = errors.New("this prefix is not refused; sheaf host prefix ls lists those that are")

// RefusedPrefix is a part of a host that robots leave out: the pages that match a weburl.Prefix.
type RefusedPrefix struct {
	URL    string    `json:"url"` // always http, such as http://www.example.jp/private/
	Since  time.Time `json:"since,omitzero"`
	By     string    `json:"by,omitempty" doc:"who decides"`
	Reason string    `json:"reason" doc:"why"`
}

// prefixOf splits a URL into its host and the path, with query, of the prefix.
func prefixOf(url string) (host, path string, err error) {
	normal, host, err := wire.NormalizeURL(url)
	var p weburl.Prefix
	if err == nil {
		p, err = weburl.ParsePrefix(normal)
	}
	if path = p.Path(); err == nil && len(path) > wire.MaxOmit {
		err = fmt.Errorf("it is longer than %d bytes", wire.MaxOmit)
	}
	if err == nil && path == "/" {
		err = errors.New("it is a whole host; sheaf host rm removes one")
	}
	if err != nil {
		return "", "", assign.Invalid{Err: fmt.Errorf("prefix %.200q: %w", url, err)}
	}
	return host, path, nil
}

// RefusePrefix keeps robots away from a part of a host, even if nobody has found the host yet.
// Robots are told with their next list. It may be called again with the same prefix.
func (r *Registry) RefusePrefix(ctx context.Context, p RefusedPrefix) error {
	host, path, err := prefixOf(p.URL)
	if err != nil {
		return err
	}
	return r.assignments.Change(ctx, func(t *assign.Tx) error {
		n, err := t.Exec(ctx, `INSERT INTO refused_prefixes (host, path, created, by_whom, reason) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			host, path, db.Millis(time.Now()), p.By, p.Reason)
		if err != nil || n == 0 {
			return err
		}
		var have int
		if err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM refused_prefixes WHERE host = ?`, host).Scan(&have); err != nil {
			return err
		}
		if have > maxPrefixes {
			return assign.Invalid{Err: fmt.Errorf("%s has %d refused prefixes, which is the limit", host, maxPrefixes)}
		}
		return touchRobotsOf(ctx, t, host)
	})
}

// RestorePrefix is RefusePrefix for a refusal that the database has lost; see RestoreDomain.
func (r *Registry) RestorePrefix(ctx context.Context, url, reason string) error {
	return r.RefusePrefix(ctx, RefusedPrefix{URL: url, Reason: reason, By: restored})
}

// AllowPrefix ends the refusal of a prefix. Robots are told with their next list.
func (r *Registry) AllowPrefix(ctx context.Context, url string) error {
	host, path, err := prefixOf(url)
	if err != nil {
		return err
	}
	return r.assignments.Change(ctx, func(t *assign.Tx) error {
		n, err := t.Exec(ctx, `DELETE FROM refused_prefixes WHERE host = ? AND path = ?`, host, path)
		if err == nil && n == 0 {
			err = fmt.Errorf("%.200s: %w", url, ErrPrefixNotRefused)
		}
		if err != nil {
			return err
		}
		return touchRobotsOf(ctx, t, host)
	})
}

// touchRobotsOf makes the robots of a host fetch new lists.
func touchRobotsOf(ctx context.Context, t *assign.Tx, host string) error {
	robots, err := assign.RobotsOf(ctx, t, host)
	t.Touch(robots...)
	return err
}

// RefusedPrefixes returns the prefixes that are refused, by host.
func (r *Registry) RefusedPrefixes(ctx context.Context) ([]RefusedPrefix, error) {
	return db.List(ctx, r.db, func(rows *sql.Rows, p *RefusedPrefix) error {
		return rows.Scan(&p.URL, db.At(&p.Since), &p.By, &p.Reason)
	}, `SELECT 'http://' || host || path, created, by_whom, reason FROM refused_prefixes ORDER BY host, path`)
}
