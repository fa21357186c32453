package removal

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"

	"sheaf/internal/db"
	"sheaf/manager/hosts"
)

// Kept selects the ID of each granted request, with a text from which Keep makes the request again
// in another database. The text has nothing about the asker.
const Kept = `SELECT id, wish || ' ' || kind || ' ' || target || ' ' || decided FROM removals WHERE state = 'granted'`

// Keep puts a granted request into a database that lacks it. The request counts as carried out: its
// take-downs are in the catalog, and its asker was told.
func Keep(ctx context.Context, d *sql.DB, robots *hosts.Registry, id, kept string) error {
	r := Request{ID: id}
	var decided int64
	if _, err := fmt.Sscan(kept, &r.Wish, &r.Kind, &r.Target, &decided); err != nil {
		return fmt.Errorf("granted request %q: %w", kept, err)
	}
	if r.Kind == Host { // for other kinds the manager has tables
		if err := robots.RefuseHost(ctx, r.Target); err != nil {
			return err
		}
	}
	return db.Transact(ctx, d, nil, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO removals (id, secret, wish, kind, target, site, email, reason, lang, network, created, state, decided, carried)
			VALUES (?, ?, ?, ?, ?, ?, '', '', 'en', '', ?, ?, ?, ?) ON CONFLICT DO NOTHING`, id, rand.Text(), r.Wish, r.Kind, r.Target, r.target().site(), decided, Granted, decided, decided)
		_, noted := tx.ExecContext(ctx, `INSERT INTO removal_events (removal, n, at, by_whom, act, note) VALUES (?, 0, ?, ?, 'granted', '') ON CONFLICT DO NOTHING`, id, decided, byService)
		return errors.Join(err, noted)
	})
}
