package removal

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sheaf/internal/audit"
	"sheaf/internal/db"
	"sheaf/internal/peer"
)

// Limits of requests. A day means the last 24 hours.
const (
	perNetwork = 10   // requests a day from one network
	perEmail   = 5    // requests a day from one mail address
	perSite    = 10   // requests a day about one registered domain
	perDay     = 1000 // requests a day
	maxReason  = 2000 // bytes

	life = 14 * 24 * time.Hour // of a request that is neither proved nor decided
)

// Errors of Ask.
var (
	errEmail = errors.New("not a mail address")
	errWords = errors.New("no reason, or one that is too long")
	errMany  = errors.New("too many requests today")
)

// ask stores a request. lang is the asker's language, and remote the client's address.
func (d *Desk) ask(ctx context.Context, f askForm, lang, remote string) (*Request, error) {
	t, err := parseTarget(f.Kind, f.Target)
	if err != nil {
		return nil, err
	}
	if f.Wish != Remove && f.Wish != Exclude {
		return nil, errTarget
	}
	email, ok := parseAddress(f.Email)
	if !ok {
		return nil, errEmail
	}
	reason := strings.TrimSpace(f.Reason)
	if reason == "" || len(reason) > maxReason || !utf8.ValidString(reason) {
		return nil, errWords
	}
	r := &Request{
		ID: strings.ToLower(rand.Text()[:12]), secret: strings.ToLower(rand.Text()), Wish: f.Wish, Kind: f.Kind, Target: t.text, Email: email, Reason: reason, Lang: lang,
		Created: db.Time(db.Millis(d.now())), State: Open,
	}
	network := peer.Network(peer.Addr(remote)).String()
	err = db.Transact(ctx, d.opt.DB, nil, func(tx *sql.Tx) error {
		if err := d.admit(ctx, tx, network, email, t.site()); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO removals (id, secret, wish, kind, target, site, email, reason, lang, network, created, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			r.ID, r.secret, r.Wish, r.Kind, r.Target, t.site(), r.Email, r.Reason, r.Lang, network, db.Millis(r.Created), r.State)
		if err != nil {
			return err
		}
		if err := d.note(ctx, tx, r.ID, byAsker, "asked", ""); err != nil {
			return err
		}
		if err := d.opt.Mails.Add(ctx, tx, d.received(r)); err != nil {
			return err
		}
		return audit.Write(ctx, tx)
	})
	if err != nil {
		return nil, fmt.Errorf("request for %s: %w", t.text, err)
	}
	d.opt.Mails.Hurry()
	d.opt.Log.InfoContext(ctx, "a removal is asked for", "removal", r.ID, "wish", r.Wish, "kind", r.Kind, "target", r.Target)
	return r, nil
}

// admit fails with errMany if a daily limit is reached.
func (d *Desk) admit(ctx context.Context, tx *sql.Tx, network, email, site string) error {
	var all, ofNetwork, ofEmail, ofSite int
	err := tx.QueryRowContext(ctx, `SELECT COUNT(*), COALESCE(SUM(CASE WHEN network = ? THEN 1 ELSE 0 END), 0),
			COALESCE(SUM(CASE WHEN lower(email) = ? THEN 1 ELSE 0 END), 0), COALESCE(SUM(CASE WHEN site = ? THEN 1 ELSE 0 END), 0)
		FROM removals WHERE created > ?`, network, strings.ToLower(email), site, db.Millis(d.now().Add(-day))).Scan(&all, &ofNetwork, &ofEmail, &ofSite)
	if err != nil {
		return err
	}
	if all >= perDay || ofNetwork >= perNetwork || ofEmail >= perEmail || ofSite >= perSite {
		return errMany
	}
	return nil
}

const day = 24 * time.Hour

// note adds a step to a request's history.
func (d *Desk) note(ctx context.Context, tx *sql.Tx, id, by, act, note string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO removal_events (removal, n, at, by_whom, act, note)
		SELECT ?, COUNT(*), ?, ?, ?, ? FROM removal_events WHERE removal = ?`, id, db.Millis(d.now()), by, act, note, id)
	return err
}

const columns = `id, secret, wish, kind, target, email, reason, lang, created, state, proof, answer, decided, carried, code_to, code_until, codes`

func scan(rows interface{ Scan(...any) error }, r *Request) error {
	return rows.Scan(&r.ID, &r.secret, &r.Wish, &r.Kind, &r.Target, &r.Email, &r.Reason, &r.Lang, db.At(&r.Created), &r.State, &r.Proof, &r.Answer,
		db.At(&r.Decided), db.At(&r.Carried), &r.codeTo, db.At(&r.codeUntil), &r.codes)
}

// Get returns a request, or ErrUnknown.
func (d *Desk) Get(ctx context.Context, id string) (*Request, error) { return d.get(ctx, d.opt.DB, id) }

func (d *Desk) get(ctx context.Context, q db.Queryer, id string) (*Request, error) {
	var r Request
	err := scan(q.QueryRowContext(ctx, `SELECT `+columns+` FROM removals WHERE id = ?`, id), &r)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("request %.40q: %w", id, ErrUnknown)
	}
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", id, err)
	}
	return &r, nil
}

// open returns a request that is neither decided nor expired. Otherwise it fails with ErrDecided.
func (d *Desk) open(ctx context.Context, q db.Queryer, id string) (*Request, error) {
	r, err := d.get(ctx, q, id)
	if err != nil {
		return nil, err
	}
	if r.State != Proved && (r.State != Open || d.now().Sub(r.Created) > life) {
		return nil, fmt.Errorf("request %s is %s: %w", id, r.State, ErrDecided)
	}
	return r, nil
}

// States returns all states, in the order in which operators see them.
func States() []State { return []State{Proved, Open, Granted, Refused, Expired} }

// List returns at most limit requests in the states, the latest first. Without states it returns
// requests in all states.
func (d *Desk) List(ctx context.Context, limit int, states ...State) ([]Request, error) {
	if len(states) == 0 {
		states = States()
	}
	return db.List(ctx, d.opt.DB, func(rows *sql.Rows, r *Request) error { return scan(rows, r) },
		`SELECT `+columns+` FROM removals WHERE state IN `+db.Tuple(len(states))+` ORDER BY created DESC, id LIMIT ?`, append(db.Args(slices.Clone(states)), limit)...)
}

// History returns the steps of a request.
func (d *Desk) History(ctx context.Context, id string) ([]Event, error) {
	return db.List(ctx, d.opt.DB, func(rows *sql.Rows, e *Event) error {
		return rows.Scan(db.At(&e.At), &e.By, &e.Act, &e.Note)
	}, `SELECT at, by_whom, act, note FROM removal_events WHERE removal = ? ORDER BY n`, id)
}
