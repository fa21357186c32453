// Package removal is the desk at which owners of sites ask that pages of theirs are removed, or
// that robots no longer visit them:
//
//	/removal                   the form
//	/removal/<id>/<secret>     one request, for its asker: how to prove it, and its outcome
//	/v1/admin/removals         the requests, for operators
//	/robots/                   who the robots are; whether a visit was theirs (see Visits)
//
// A request is open until its asker proves that the site is theirs. Then it is proved. Operators
// grant or refuse it. A grant becomes a take-down (see archive/upkeep) and a refusal for the robots
// (see manager/hosts). A request that is neither proved nor decided in two weeks expires.
//
// Proof is a code that was sent to an address at the site, a file on the site, or a DNS record. For
// all three the service contacts places that strangers name, so it connects only to public
// addresses.
package removal

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/db"
	"sheaf/internal/mailer"
	"sheaf/internal/webpage"
	"sheaf/manager/hosts"
)

// Wish is what an asker wants.
type Wish string

const (
	Remove  Wish = "removal"   // remove what is stored, and visit no more
	Exclude Wish = "exclusion" // visit no more
)

// State is the state of a request.
type State string

const (
	Open    State = "open"
	Proved  State = "proved"
	Granted State = "granted"
	Refused State = "refused"
	Expired State = "expired" // neither proved nor decided in time
)

// Request is one request to remove pages, from the form to the decision.
type Request struct {
	ID      string    `json:"id"`
	Wish    Wish      `json:"wish"`
	Kind    Kind      `json:"kind"`
	Target  string    `json:"target"` // the host, URL or domain
	Email   string    `json:"email"`  // of the asker
	Reason  string    `json:"reason"`
	Lang    string    `json:"lang"` // of the form: en or ja
	Created time.Time `json:"created"`
	State   State     `json:"state"`
	Proof   string    `json:"proof,omitempty"`  // how it was proved
	Answer  string    `json:"answer,omitempty"` // the operator's words to the asker
	Decided time.Time `json:"decided,omitzero"`
	Carried time.Time `json:"carried,omitzero"` // when a grant was carried out

	secret    string // in the link to its page
	codeTo    string // address to which the last code was sent; empty: no code is valid
	codeUntil time.Time
	codes     int // number of mails with codes that were sent
}

// Event is one step of a request's history.
type Event struct {
	At   time.Time `json:"at"`
	By   string    `json:"by"` // asker, service, or the operator's name
	Act  string    `json:"act"`
	Note string    `json:"note,omitempty"`
}

const (
	byAsker   = "asker"
	byService = "service"
)

// Errors of Desk.
var (
	ErrUnknown  = errors.New("there is no such request")
	ErrDecided  = errors.New("the request is decided or has expired")
	ErrUnproved = errors.New("nothing proves that the site is the asker's; sheaf removal grant --unproved grants it nevertheless")
	ErrReason   = errors.New("no reason is given; the asker is told it")
)

// Takedowns takes archives down. *upkeep.Takedowns is one.
type Takedowns interface {
	Take(ctx context.Context, stones ...catalog.Tombstone) (version int64, err error)
	TakeDomain(ctx context.Context, domain, reason, by string) (hosts int, err error)
	TakePorts(ctx context.Context, host, reason, by string) (hosts int, err error)
}

// Options are a desk's settings. DB, Site and Mails are required.
type Options struct {
	DB      *sql.DB
	Site    *webpage.Site
	Mails   *mailer.Outbox
	Base    string  // the service's own URL, for links in mails
	Network Network // looks for files and DNS records

	// Takedowns and Hosts carry grants out. nil: this process only takes requests.
	Takedowns Takedowns
	Hosts     *hosts.Registry

	Poll time.Duration // between two looks for work; default a minute
	Log  *slog.Logger  // nil: discards
}

// Desk keeps the requests in the control database. It may be used by many goroutines at once, and
// by several processes.
type Desk struct {
	opt   Options
	looks chan struct{} // has one value for each look at a site under way
	now   func() time.Time
}

// New returns a desk. Its Run carries out grants and lets requests expire.
func New(opt Options) *Desk {
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	if opt.Poll <= 0 {
		opt.Poll = time.Minute
	}
	return &Desk{opt: opt, looks: make(chan struct{}, looksAtOnce), now: time.Now}
}

// Decides reports whether this process carries grants out.
func (d *Desk) Decides() bool { return d.opt.Takedowns != nil && d.opt.Hosts != nil }

// path returns the path of the request's page. Whoever knows it counts as the asker.
func (r *Request) path() string { return Path + "/" + r.ID + "/" + r.secret }

// token returns the text that proves the request in a file or a DNS record. Everybody may see it
// there: it is valid for this request only and does not reveal the link.
func (r *Request) token() string {
	mac := hmac.New(sha256.New, []byte(r.secret))
	mac.Write([]byte("token of " + r.ID))
	return "sheaf-removal-" + hex.EncodeToString(mac.Sum(nil)[:16])
}

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
