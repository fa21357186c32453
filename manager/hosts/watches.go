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
	list := wire.WatchList{Watches: []wire.WatchOrder{}}
	err := db.Each(ctx, r.db, func(rows *sql.Rows) error {
		var o wire.WatchOrder
		if err := rows.Scan(&o.Kind, &o.Host, &o.URL, &o.Address, &o.Body, &o.Media); err != nil {
			return err
		}
		if o.Body == "" {
			o.Address = "" // only a form has an address besides its URL
		}
		list.Watches = append(list.Watches, o)
		return nil
	}, `
		SELECT DISTINCT w.kind, w.host, w.url, w.address, w.body, w.media
		FROM watches w JOIN assignments a ON a.host = w.host AND a.robot = ? AND a.to_generation IS NULL
		ORDER BY w.host, w.kind, w.url`, robot)
	return list, err
}
