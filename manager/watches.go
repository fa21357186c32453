package manager

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"

	"sheaf/internal/wire"
)

// serveWatches tells a robot what consumers watch of its hosts. Who wants to know is not its business.
func (m *Manager) serveWatches(w http.ResponseWriter, r *http.Request, robot string) error {
	list, err := m.watches(r.Context(), robot)
	if err != nil {
		return err
	}
	body, err := json.Marshal(list)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "private, no-cache")
	if matches(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(body)
	if err != nil {
		m.log.DebugContext(r.Context(), "watches broken off", "robot", robot, "err", err)
	}
	return nil
}

// watches reads what serve's consumers have asked for (the table watches is serve/watch's), of the hosts that the robot has now.
func (m *Manager) watches(ctx context.Context, robot string) (wire.WatchList, error) {
	list := wire.WatchList{Watches: []wire.WatchOrder{}}
	rows, err := m.db.QueryContext(ctx, `
		SELECT DISTINCT w.kind, w.host, w.url, w.address, w.body, w.media
		FROM watches w JOIN assignments a ON a.host = w.host AND a.robot = ? AND a.to_generation IS NULL
		ORDER BY w.host, w.kind, w.url`, robot)
	if err != nil {
		return list, err
	}
	defer rows.Close()
	for rows.Next() {
		var o wire.WatchOrder
		if err := rows.Scan(&o.Kind, &o.Host, &o.URL, &o.Address, &o.Body, &o.Media); err != nil {
			return list, err
		}
		if o.Body == "" {
			o.Address = "" // it is the URL
		}
		list.Watches = append(list.Watches, o)
	}
	return list, rows.Err()
}
