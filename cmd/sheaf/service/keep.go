package service

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/db"
	"sheaf/internal/loop"
	"sheaf/manager"
	"sheaf/ui/removal"
)

// keepEvery is the time between two looks for restrictions that another process or another program
// has changed. Changes by operators over HTTP are kept before the answer is sent.
const keepEvery = time.Second

// keeper copies restrictions, such as access rules, into the catalog's log. So a restored backup,
// or a new database, does not reveal what was hidden after it was made: the keeper puts
// restrictions that only the log has into the database. It does not copy the ends of restrictions:
// if the database has not seen a restriction's end, the restriction holds again until somebody ends
// it again.
type keeper struct {
	db      *sql.DB
	catalog *catalog.Catalog
	robots  *manager.Manager // nil: another process has it
	log     *slog.Logger

	mu      sync.Mutex // held during one look; guards the fields below
	version int64      // version of the catalog
	have    []catalog.Restriction
}

// restriction is one kind of restriction: how to find it in the database, and how to put it there.
type restriction struct {
	kind string // catalog.Restriction.Kind, in words for operators
	rows string // SQL for the restrictions in force: a row has the name, and the value as JSON or as a text
	text bool   // the value is a text
	// apply puts a restriction into the database, if it is not there. value is as rows has it.
	apply func(ctx context.Context, name, value string) error
}

// kinds returns the kinds of restrictions that this process can put into the database.
func (k *keeper) kinds() []restriction {
	exec := func(query string) func(ctx context.Context, name, value string) error {
		return func(ctx context.Context, name, value string) error {
			_, err := k.db.ExecContext(ctx, query, name, value)
			return err
		}
	}
	all := []restriction{
		{"access rule", `SELECT id, rule FROM access_rules WHERE removed = 0`, false, func(ctx context.Context, name, value string) error {
			var r struct{ Created time.Time }
			if err := json.Unmarshal([]byte(value), &r); err != nil {
				return err
			}
			_, err := k.db.ExecContext(ctx, `INSERT INTO access_rules (id, rule, created) VALUES (CAST(? AS BIGINT), ?, ?) ON CONFLICT DO NOTHING`, name, value, db.Millis(r.Created))
			return err
		}},
		{"suspended account", `SELECT name, 'true' FROM accounts WHERE suspended = 1`, false, exec(`UPDATE accounts SET suspended = 1 WHERE name = ? AND ? <> ''`)},
		{"suspended operator", `SELECT name, 'true' FROM operators WHERE suspended = 1`, false, exec(`UPDATE operators SET suspended = 1 WHERE name = ? AND ? <> ''`)},
	}
	if k.robots == nil {
		return all
	}
	return append(all,
		restriction{"refused domain", `SELECT domain, reason FROM refused_domains`, true, k.robots.Hosts.RestoreDomain},
		restriction{"refused URL prefix", `SELECT 'http://' || host || path, reason FROM refused_prefixes`, true, k.robots.Hosts.RestorePrefix},
		restriction{"granted removal", removal.Kept, true, func(ctx context.Context, name, value string) error {
			return removal.Keep(ctx, k.db, k.robots.Hosts, name, value)
		}},
		restriction{"stolen key", `SELECT name, stolen FROM robots WHERE stolen <> 0`, false, func(ctx context.Context, name, value string) error {
			since, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return err
			}
			return k.robots.Roster.Bar(ctx, name, time.UnixMilli(since))
		}})
}

// run calls sync again and again, until ctx ends.
func (k *keeper) run(ctx context.Context) error {
	return loop.Every(ctx, keepEvery, k.sync, func(err error) {
		k.log.ErrorContext(ctx, "what hides something is not kept in the catalog yet", "err", err)
	})
}

// sync makes the database and the catalog have the same restrictions.
func (k *keeper) sync(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	have, err := k.kept(ctx)
	if err != nil {
		return err
	}
	var news []catalog.Restriction
	for _, kind := range k.kinds() {
		some, err := k.syncKind(ctx, kind, have)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.kind, err)
		}
		news = append(news, some...)
	}
	if len(news) == 0 {
		return nil
	}
	if err := k.catalog.Restrict(ctx, news...); err != nil {
		return err
	}
	if have, err = k.kept(ctx); err != nil {
		return err
	}
	for _, kind := range k.kinds() {
		if err := k.know(ctx, kind.kind, have); err != nil {
			return err
		}
	}
	return nil
}

func (k *keeper) kept(ctx context.Context) ([]catalog.Restriction, error) {
	s, err := k.catalog.PinWithin(ctx, time.Minute) // Restrict reads the newest version itself
	if err != nil {
		return nil, err
	}
	defer s.Release()
	if s.Version() != k.version {
		if k.have, err = catalog.Restrictions(ctx, s); err != nil {
			return nil, err
		}
		k.version = s.Version()
	}
	return k.have, nil
}

// syncKind copies from the catalog the restrictions of a kind that the database has not seen, and
// returns the changes that the catalog lacks.
func (k *keeper) syncKind(ctx context.Context, kind restriction, have []catalog.Restriction) (news []catalog.Restriction, err error) {
	var known int64
	if err := k.db.QueryRowContext(ctx, `SELECT COALESCE(MAX(seq), 0) FROM restrictions_known WHERE kind = ?`, kind.kind).Scan(&known); err != nil {
		return nil, err
	}
	rows, err := k.inForce(ctx, kind)
	if err != nil {
		return nil, err
	}
	unseen := false
	for _, r := range have {
		_, there := rows[r.Name]
		if r.Kind != kind.kind || r.Seq <= known || !there && r.Ended() {
			continue
		}
		unseen = true
		switch {
		case there && r.Ended():
			k.log.WarnContext(ctx, "what was ended after the backup holds again; end it again", "kind", r.Kind, "restriction", r.Name, "at", r.At)
		case !there:
			k.log.WarnContext(ctx, "what was hidden or excluded after the backup is so again", "kind", r.Kind, "restriction", r.Name, "at", r.At)
			value := string(r.Value)
			if kind.text {
				err = json.Unmarshal(r.Value, &value)
			}
			if err == nil {
				err = kind.apply(ctx, r.Name, value)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.Name, err)
			}
		}
	}
	if unseen {
		if err := k.know(ctx, kind.kind, have); err != nil {
			return nil, err
		}
		if rows, err = k.inForce(ctx, kind); err != nil {
			return nil, err
		}
	}
	last := make(map[string]catalog.Restriction)
	for _, r := range have {
		if r.Kind != kind.kind {
			continue
		}
		last[r.Name] = r
		if _, there := rows[r.Name]; !there && !r.Ended() {
			news = append(news, catalog.Restriction{Kind: r.Kind, Name: r.Name})
		}
	}
	for name, value := range rows {
		if !bytes.Equal(last[name].Value, value) {
			news = append(news, catalog.Restriction{Kind: kind.kind, Name: name, Value: value})
		}
	}
	return news, nil
}

// inForce returns the database's restrictions of a kind, by name, in the catalog's form.
func (k *keeper) inForce(ctx context.Context, kind restriction) (map[string]json.RawMessage, error) {
	found := make(map[string]json.RawMessage)
	return found, db.Each(ctx, k.db, func(rows *sql.Rows) error {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		var of any = json.RawMessage(value)
		if kind.text {
			of = value
		}
		data, err := json.Marshal(of)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		found[name] = data
		return nil
	}, kind.rows)
}

// know records in the database that it has seen the catalog's restrictions of a kind.
func (k *keeper) know(ctx context.Context, kind string, have []catalog.Restriction) error {
	last := int64(0)
	for _, r := range have {
		if r.Kind == kind {
			last = max(last, r.Seq)
		}
	}
	_, err := k.db.ExecContext(ctx, `INSERT INTO restrictions_known (kind, seq) VALUES (?, ?) ON CONFLICT (kind) DO UPDATE SET seq = excluded.seq`, kind, last)
	return err
}

// keepTime is how long an operator's request waits until its change is kept in the catalog. If that
// takes longer, run keeps it.
const keepTime = 5 * time.Second

// after keeps the changes of a request before the request is answered. An error is only logged.
func (k *keeper) after(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
	defer cancel()
	if err := k.sync(ctx); err != nil {
		k.log.ErrorContext(ctx, "what hides something is not kept in the catalog yet", "err", err)
	}
}
