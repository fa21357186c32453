// Package session remembers who has logged in with a browser. The browser has a cookie with a
// random token; everything else is in the database, so that all processes know all sessions.
//
// A session ends by log-out, when it has not been used for a while, and some time after the log-in
// in any case. It also holds a mark of the credentials with which it began. The callers of Who
// compare the mark with that of the current credentials, so a new password ends the sessions that
// began with the old one.
package session

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"

	"sheaf/internal/db"
	"sheaf/internal/loop"
	"sheaf/internal/webpage"
)

// Kind says whether a name is an account's or an operator's.
type Kind string

const (
	Account  Kind = "account"
	Operator Kind = "operator"
)

// Who is an account or an operator who has logged in. One session can have one of each kind.
type Who struct {
	Kind Kind
	Name string
	Mark string // of the credentials
}

// Default times of Options.
const (
	DefaultIdle = 12 * time.Hour
	DefaultLife = 7 * 24 * time.Hour
)

// Paths of the log-in page, to which Ask leads, of the page for a forgotten password, and of the
// form that logs out.
const (
	PathLogin  = "/login"
	PathReset  = PathLogin + "/reset"
	PathLogout = "/logout"
)

// cookieName is the name of the cookie with the session's token: see Cookie.
const cookieName = "sheaf_session"

// Options of Sessions. DB is needed.
type Options struct {
	DB     *sql.DB
	Idle   time.Duration // time after which an unused session ends; default DefaultIdle
	Life   time.Duration // time after which every session ends; default DefaultLife
	Public string        // the service's own URL, if it is behind a proxy
	Slower int           // factor of queryTime, for a slow database; 0 means 1
}

// Sessions keeps sessions. Its methods may be called concurrently. A nil *Sessions has no sessions.
type Sessions struct {
	manager *scs.SessionManager
	store   *store
	secure  bool          // clients use TLS, which ends at a proxy
	limit   time.Duration // time for the database to find a session
}

// New returns the Sessions in opt.DB, whose migrations must have run.
func New(opt Options) *Sessions {
	s := &store{db: opt.DB, idle: cmp.Or(opt.Idle, DefaultIdle), life: cmp.Or(opt.Life, DefaultLife)}
	// scs.New would also make a store in memory, with a goroutine.
	m := &scs.SessionManager{IdleTimeout: min(s.idle, s.life), Lifetime: s.life, Store: s, HashTokenInStore: true, Codec: scs.GobCodec{}}
	return &Sessions{manager: m, store: s, secure: strings.HasPrefix(opt.Public, "https:"), limit: queryTime * time.Duration(max(1, opt.Slower))}
}

// Given reports whether a request carries the cookie of a session. The session may have ended.
func (s *Sessions) Given(r *http.Request) bool { return s != nil && s.token(r) != "" }

// queryTime is how long the database may take to find a session. It is short, because downloads
// wait for it, too.
const queryTime = 3 * time.Second

// Who returns the account or operator who has logged in; ok is false if nobody has. Who does not
// check the mark.
func (s *Sessions) Who(r *http.Request, kind Kind) (who Who, ok bool, err error) {
	if !s.Given(r) {
		return Who{}, false, nil
	}
	bounded, cancel := context.WithTimeout(r.Context(), s.limit)
	defer cancel()
	ctx, err := s.manager.Load(bounded, s.token(r))
	if err != nil {
		return Who{}, false, fmt.Errorf("session: %w", err)
	}
	who = Who{Kind: kind, Name: s.manager.GetString(ctx, nameOf(kind)), Mark: s.manager.GetString(ctx, markOf(kind))}
	return who, who.Name != "", nil
}

// Ask sends a browser without credentials to the log-in page. From there the log-in leads back. For
// any other request, such as a program's, it returns false, and the caller must answer.
func (s *Sessions) Ask(w http.ResponseWriter, r *http.Request) bool {
	if s == nil || r.Header.Get("Authorization") != "" || !webpage.Wanted(r) || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	_ = webpage.SeeOther(w, PathLogin+"?"+url.Values{"next": {r.URL.RequestURI()}}.Encode())
	return true
}

// Begin logs an account, an operator or both in. It gives the session a new token, so that a token
// that somebody has planted in the browser before is useless.
func (s *Sessions) Begin(w http.ResponseWriter, r *http.Request, all ...Who) error {
	if len(all) == 0 || slices.ContainsFunc(all, func(who Who) bool { return who.Name == "" || who.Mark == "" }) {
		return errors.New("session: nobody logs in")
	}
	ctx, err := s.manager.Load(r.Context(), s.token(r))
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	if err := s.manager.RenewToken(ctx); err != nil {
		return fmt.Errorf("session: %w", err)
	}
	for _, who := range all {
		s.manager.Put(ctx, nameOf(who.Kind), who.Name)
		s.manager.Put(ctx, markOf(who.Kind), who.Mark)
	}
	value, _, err := s.manager.Commit(ctx)
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	s.setCookie(w, r, value)
	return nil
}

// End logs out the account and the operator of a request's session.
func (s *Sessions) End(w http.ResponseWriter, r *http.Request) error {
	if !s.Given(r) {
		return nil
	}
	ctx, err := s.manager.Load(r.Context(), s.token(r))
	if err == nil {
		err = s.manager.Destroy(ctx)
	}
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	s.setCookie(w, r, "")
	return nil
}

// Run deletes sessions that have ended, at once and every hour, until ctx ends. It passes errors to
// tell and goes on.
func (s *Sessions) Run(ctx context.Context, tell func(error)) error {
	return loop.Every(ctx, time.Hour, s.store.trim, tell)
}

// overTLS reports whether the client of a request uses TLS, so that its cookies can be limited to
// TLS.
func (s *Sessions) overTLS(r *http.Request) bool { return r.TLS != nil || s.secure }

// CookieName returns the full name of a cookie. For clients that use TLS it begins with __Host-:
// then browsers accept the cookie only from this host over TLS, so that neither another host of the
// domain nor an attacker in the network can plant one (draft-ietf-httpbis-rfc6265bis, section
// 4.1.3.2).
func (s *Sessions) CookieName(r *http.Request, name string) string {
	if s.overTLS(r) {
		return "__Host-" + name
	}
	return name
}

// Cookie returns a cookie for the whole service. Scripts cannot read it. A request from another
// site has it only if the reader follows a link. The browser forgets it when the browser is closed;
// an empty value deletes it.
func (s *Sessions) Cookie(r *http.Request, name, value string) *http.Cookie {
	c := &http.Cookie{Name: s.CookieName(r, name), Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: s.overTLS(r)}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}

// setCookie gives the browser a token; an empty value deletes the cookie.
func (s *Sessions) setCookie(w http.ResponseWriter, r *http.Request, value string) {
	http.SetCookie(w, s.Cookie(r, cookieName, value))
	w.Header().Set("Cache-Control", "no-store")
}

// token returns the token in a request's cookie. It may be forged.
func (s *Sessions) token(r *http.Request) string {
	c, err := r.Cookie(s.CookieName(r, cookieName))
	if err != nil {
		return ""
	}
	return c.Value
}

func nameOf(k Kind) string { return string(k) + ".name" }
func markOf(k Kind) string { return string(k) + ".mark" }

// store is an scs.CtxStore in the control database.
type store struct {
	db         *sql.DB
	idle, life time.Duration
}

// clockError is how far the clocks of processes may differ. If a session's beginning lies farther
// in the future, the clock was set back since, and the session ends, because it would last too
// long.
const clockError = 5 * time.Minute

// touchEvery limits writes: the end of a used session is moved once in each idle time divided by
// touchEvery.
const touchEvery = 20

// FindCtx returns a session's data. It moves the session's end to the idle time from now, but not
// beyond the session's life.
func (s *store) FindCtx(ctx context.Context, token string) (data []byte, found bool, err error) {
	var begun, expires time.Time
	err = s.db.QueryRowContext(ctx, `SELECT data, begun, expires FROM sessions WHERE token = ?`, token).Scan(&data, db.At(&begun), db.At(&expires))
	now := time.Now()
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case !now.Before(expires) || !now.Before(begun.Add(s.life)), begun.After(now.Add(clockError)):
		return nil, false, nil
	}
	end := now.Add(s.idle)
	if last := begun.Add(s.life); last.Before(end) {
		end = last
	}
	if end.Sub(expires) > s.idle/touchEvery {
		// An insert could bring back a session that another request has just ended.
		if _, err := s.db.ExecContext(ctx, `UPDATE sessions SET expires = ? WHERE token = ?`, db.Millis(end), token); err != nil {
			return nil, false, err
		}
	}
	return data, true, nil
}

// CommitCtx stores a session under a token. It replaces a session that has the token.
func (s *store) CommitCtx(ctx context.Context, token string, data []byte, expires time.Time) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO sessions (token, data, begun, expires) VALUES (?, ?, ?, ?)
		ON CONFLICT (token) DO UPDATE SET data = excluded.data, expires = excluded.expires`,
		token, data, db.Millis(time.Now()), db.Millis(expires))
	return err
}

// DeleteCtx ends a session.
func (s *store) DeleteCtx(ctx context.Context, token string) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM sessions WHERE token = ?`, token)
	return err
}

// trim deletes sessions that have ended.
func (s *store) trim(ctx context.Context) error {
	now := time.Now()
	_, err := s.db.ExecContext(ctx, `DELETE FROM sessions WHERE expires <= ? OR begun <= ? OR begun > ?`,
		db.Millis(now), db.Millis(now.Add(-s.life)), db.Millis(now.Add(clockError)))
	return err
}

// Find, Commit and Delete are only there for scs.Store; scs calls FindCtx, CommitCtx and DeleteCtx.
func (s *store) Find(token string) ([]byte, bool, error) {
	return s.FindCtx(context.Background(), token)
}

func (s *store) Commit(token string, data []byte, expires time.Time) error {
	return s.CommitCtx(context.Background(), token, data, expires)
}

func (s *store) Delete(token string) error { return s.DeleteCtx(context.Background(), token) }
