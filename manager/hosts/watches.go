package hosts

import (
	"context"
	"database/sql"

	"sheaf/internal/db"
	"sheaf/internal/wire"
)

// Watches returns what consumers watch of the hosts that a robot has now. It does not say which
// consumer. The table belongs to serve/watch.
func (r *Registry) Watches(ctx context.Context, robot string) (wire.WatchList, error) {
	orders, err := db.List(ctx, r.db, func(rows *sql.Rows, o *wire.WatchOrder) error {
		err := rows.Scan(&o.Kind, &o.Host, &o.URL, &o.Address, &o.Body, &o.Media)
		if o.Body == "" {
			o.Address = "" // only a form has an address besides its URL
		}
		return err
	}, `
		SELECT DISTINCT w.kind, w.host, w.url, w.address, w.body, w.media
		FROM watches w JOIN assignments a ON a.host = w.host AND a.robot = ? AND a.to_generation IS NULL
		ORDER BY w.host, w.kind, w.url`, robot)
	return wire.WatchList{Watches: orders}, err
}
