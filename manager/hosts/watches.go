package hosts

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"sheaf/internal/db"
	"sheaf/internal/wire"
)

// SourceWatch is the source of a host that was not collected until a consumer watched it. No robot
// can have this name.
const SourceWatch = "a watch"

// watchedAtOnce limits the hosts that one call of EnterWatched enters.
const watchedAtOnce = 1000

// EnterWatched enters hosts that consumers watch and that are not known yet. The policy decides on
// each host as if a robot had found it. If there are many, the next call enters the rest.
func (r *Registry) EnterWatched(ctx context.Context) (Report, error) {
	lines, err := db.List(ctx, r.db, func(rows *sql.Rows, l *wire.HostLine) error { return rows.Scan(&l.URL) }, `
		SELECT DISTINCT CASE WHEN w.address = '' OR w.body <> '' THEN w.url ELSE w.address END
		FROM watches w WHERE NOT EXISTS (SELECT 1 FROM hosts h WHERE h.name = w.host) LIMIT ?`, watchedAtOnce)
	if err != nil {
		return Report{}, fmt.Errorf("hosts of watches: %w", err)
	}
	lines = slices.DeleteFunc(lines, func(l wire.HostLine) bool {
		_, _, err := wire.NormalizeURL(l.URL)
		return err != nil // the watch is older than a rule for URLs; the others must not wait for it
	})
	if len(lines) == 0 {
		return Report{}, nil
	}
	return r.Discover(ctx, SourceWatch, lines)
}

// Watched reports whether consumers watch a page of every one of the hosts.
func (r *Registry) Watched(ctx context.Context, hosts []string) (bool, error) {
	for some := range slices.Chunk(hosts, db.RowsAtOnce) {
		var n int
		err := r.db.QueryRowContext(ctx, `SELECT COUNT(DISTINCT host) FROM watches WHERE host IN `+db.Tuple(len(some)), db.Args(some)...).Scan(&n)
		if err != nil || n < len(some) {
			return false, err
		}
	}
	return true, nil
}

// Watches returns the pages that consumers watch at the hosts that a robot has now. It does not say
// which consumer. The table belongs to serve/watch.
func (r *Registry) Watches(ctx context.Context, robot string) (wire.WatchList, error) {
	orders, err := db.List(ctx, r.db, func(rows *sql.Rows, o *wire.WatchOrder) error {
		err := rows.Scan(&o.Kind, &o.Host, &o.URL, &o.Address, &o.Body, &o.Media, &o.Once)
		if o.Body == "" {
			o.Address = "" // only a form has an address besides its URL
		}
		return err
	}, `
		SELECT w.kind, w.host, w.url, w.address, w.body, w.media, MAX(CASE WHEN w.once = 1 THEN w.created ELSE 0 END)
		FROM watches w JOIN assignments a ON a.host = w.host AND a.robot = ? AND a.to_generation IS NULL
		WHERE w.saved = 0 GROUP BY w.kind, w.host, w.url, w.address, w.body, w.media
		ORDER BY w.host, w.kind, w.url`, robot)
	return wire.WatchList{Watches: orders}, err
}
