package watch

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sheaf/internal/db"
)

// table reads the tables of watches and notices. Watches writes watches, follower writes notices.
type table struct {
	db   *sql.DB
	base string // see Options.Base
	now  func() time.Time
}

const watchColumns = `id, account, kind, host, url, address, body, media, email, every, confirm, webhook, secret, created, mail_stopped, hook_stopped, once, saved`

// collection is a watch's Collection. The table hosts belongs to manager/hosts.
const collection = `COALESCE((SELECT CASE WHEN h.state = 'accepted' AND h.waiting = 0 THEN 'collected' ELSE h.state END
	FROM hosts h WHERE h.name = watches.host), 'requested')`

// watches returns the watches that the SQL condition where selects.
func (t *table) watches(ctx context.Context, where string, args ...any) ([]*Watch, error) {
	return db.List(ctx, t.db, func(rows *sql.Rows, to **Watch) error {
		w := new(Watch)
		*to = w
		err := rows.Scan(&w.ID, &w.Account, &w.Kind, &w.Host, &w.URL, &w.Address, &w.Body, &w.Media, &w.Email, &w.Every, &w.confirm, &w.Webhook, &w.Secret,
			db.At(&w.Created), &w.MailStopped, &w.HookStopped, &w.Once, db.At(&w.Saved), &w.Collection)
		w.Waiting = w.confirm != ""
		return err
	}, `SELECT `+watchColumns+`, `+collection+` FROM watches WHERE `+where, args...)
}

// watch returns the watch with an ID, of any account. It fails with ErrNoWatch.
func (t *table) watch(ctx context.Context, id string) (*Watch, error) {
	return one(t.watches(ctx, `id = ?`, id))
}

func one(list []*Watch, err error) (*Watch, error) {
	if err == nil && len(list) == 0 {
		err = ErrNoWatch
	}
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

const noticeColumns = `id, watch, account, what, url, title, at, before, edition, found`

// notices returns the notices that the SQL condition where selects, with their links.
func (t *table) notices(ctx context.Context, where string, args ...any) ([]*Notice, error) {
	return db.List(ctx, t.db, func(rows *sql.Rows, to **Notice) error {
		n := new(Notice)
		*to = n
		err := rows.Scan(&n.ID, &n.Watch, &n.Account, &n.What, &n.URL, &n.Title, db.At(&n.At), db.At(&n.Before), &n.Edition, db.At(&n.Found))
		n.link(t.base)
		return err
	}, `SELECT `+noticeColumns+` FROM watch_notices WHERE `+where, args...)
}

// notice returns a notice; nil if it was deleted.
func (t *table) notice(ctx context.Context, id string) (*Notice, error) {
	list, err := t.notices(ctx, `id = ?`, id)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0], nil
}

// keepSent is how long notices, deliveries that were sent or given up, and watches that ask
// for one visit are kept.
const keepSent = 30 * 24 * time.Hour

// sweep deletes notices, deliveries, webhooks' rests and watches for one visit that are older than
// keepSent.
func (t *table) sweep(ctx context.Context) (more bool, err error) {
	before := db.Millis(t.now().Add(-keepSent))
	for _, q := range []string{`DELETE FROM watch_deliveries WHERE state <> 'waiting' AND due < ?`, `DELETE FROM watch_notices WHERE found < ?`, `DELETE FROM watch_hooks WHERE resume < ?`,
		`DELETE FROM watches WHERE once = 1 AND created < ?`} {
		if _, err := t.db.ExecContext(ctx, q, before); err != nil {
			return false, fmt.Errorf("watch: %w", err)
		}
	}
	return false, nil
}
