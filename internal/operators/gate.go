package operators

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/audit"
	"sheaf/internal/loop"
	"sheaf/internal/passwords"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/session"
	"sheaf/internal/settings"
	"sheaf/internal/webpage"
)

// Gate passes a request on to next if it comes from an operator whose role includes least, and
// refuses all others. It writes the act of next to the audit log; audit.None is for handlers that
// only read. Each route for operators goes through a Gate, so no other place decides on
// permissions.
type Gate func(least Role, act audit.Act, next http.Handler) http.Handler

// Mount returns a route.Mount that mounts operators' operations on a router, behind g. explain
// turns an error of the operation into the problem to answer; nil: errors are answered as they are.
func (g Gate) Mount(r *mux.Router, log *slog.Logger, explain func(error) error) route.Mount {
	return func(op *route.Route, h route.Handler) {
		r.Handle(op.Path, g(Role(op.For), audit.Act(op.Act), problem.Handler(log, func(w http.ResponseWriter, r *http.Request) error {
			err := h(w, r)
			if err != nil && explain != nil {
				err = explain(err)
			}
			return err
		}))).Methods(op.Method)
	}
}

// TokenName is the operator's name for requests with the token.
const TokenName = "token"

// Door identifies operators by their names and passwords, by the token, or by a browser's session.
// Programs send a name and a password by HTTP Basic, or the token as Authorization: Bearer. The
// token may also be sent as the password, with any name. All fields are required, except that Audit
// and Sessions may be nil, and Slower 0. Open sets the four that are in a database.
type Door struct {
	Store      *Store
	Token      string
	TokenFile  string // path of the token's file, for messages
	Limit      *passwords.Limiter
	Sessions   *session.Sessions
	Audit      *audit.Log
	SameOrigin func(http.Handler) http.Handler // refuses requests from pages of other sites
	Slower     int                             // factor of queryTime, for a slow database; 0 means 1
	Log        *slog.Logger
}

// who is the operator of a request.
type who struct {
	Operator
	byToken, bySession bool
}

// Login checks the name and password of an operator, or the token as the password, for a client at
// an address. It returns the operator, and the mark to store in the operator's session. Its errors
// include ErrCredentials, ErrSuspended and *passwords.TooMany.
func (d *Door) Login(ctx context.Context, name, password, remote string) (o Operator, mark string, err error) {
	if d.isToken(password) { // no operator's password can be the token
		o = d.holder()
		_, err := d.Limit.Check(ctx, passwords.Try{Realm: passwords.Operator, Name: o.Name, Secret: password, Remote: remote},
			func(context.Context) (bool, error) { return true, nil })
		return o, d.tokenMark(), err
	}
	return d.Store.Login(ctx, name, password, remote)
}

// holder returns the operator that the token stands for.
func (d *Door) holder() Operator { return Operator{Name: TokenName, Role: Admin} }

func (d *Door) isToken(given string) bool {
	want, got := sha256.Sum256([]byte(d.Token)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// tokenMark returns the mark of sessions that began with the token. The token cannot be derived
// from the mark.
func (d *Door) tokenMark() string {
	sum := sha256.Sum256([]byte("session " + d.Token))
	return hex.EncodeToString(sum[:16])
}

// queryTime is how long the database may take to identify an operator.
const queryTime = 3 * time.Second

// known is who with the time limit of bounded.
func (d *Door) known(r *http.Request) (w who, given bool, err error) {
	ctx, cancel := d.bounded(r.Context())
	defer cancel()
	return d.who(r.WithContext(ctx))
}

func (d *Door) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, queryTime*time.Duration(max(1, d.Slower)))
}

// who returns the operator of a request. given reports whether the request has a token, or a name
// and password.
func (d *Door) who(r *http.Request) (w who, given bool, err error) {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		ok, err := d.Limit.Check(r.Context(), passwords.Try{Realm: passwords.Operator, Name: TokenName, Secret: token, Remote: r.RemoteAddr},
			func(context.Context) (bool, error) { return d.isToken(token), nil })
		if err == nil && !ok {
			err = ErrCredentials
		}
		return who{Operator: d.holder(), byToken: true}, true, err
	}
	if name, password, ok := r.BasicAuth(); ok {
		o, mark, err := d.Login(r.Context(), name, password, r.RemoteAddr)
		return who{Operator: o, byToken: mark == d.tokenMark()}, true, err
	}
	w, err = d.whoBySession(r)
	return w, false, err
}

// whoBySession returns the operator of a browser's session. Without a valid session it returns
// ErrCredentials.
func (d *Door) whoBySession(r *http.Request) (who, error) {
	s, ok, err := d.Sessions.Who(r, session.Operator)
	if err != nil || !ok {
		return who{}, cmp.Or(err, ErrCredentials)
	}
	if subtle.ConstantTimeCompare([]byte(s.Mark), []byte(d.tokenMark())) == 1 {
		return who{d.holder(), true, true}, nil
	}
	o, err := d.Store.Resume(r.Context(), s.Name, s.Mark)
	return who{Operator: o, bySession: true}, err
}

// Gate is a Gate that lets in the operators whom the door identifies. It sends browsers that are
// not logged in to the log-in page, and answers 401 to programs, 403 to operators whose role is not
// enough and 429 to clients that guess.
func (d *Door) Gate(least Role, act audit.Act, next http.Handler) http.Handler {
	next = d.Audit.Handler(act, next)
	return d.SameOrigin(problem.Handler(d.Log, func(w http.ResponseWriter, r *http.Request) error {
		o, given, err := d.known(r)
		switch {
		case errors.Is(err, ErrCredentials):
			return d.ask(w, r, given)
		case errors.Is(err, ErrSuspended):
			return problem.New(http.StatusForbidden, "suspended", err.Error())
		case errors.As(err, new(*passwords.TooMany)):
			return err
		case err != nil:
			d.Log.ErrorContext(r.Context(), "login failed", "err", err)
			return problem.New(http.StatusServiceUnavailable, "operators_away", "the database does not answer, so nobody can be let in; come again in a moment")
		}
		ctx := named(context.WithValue(r.Context(), whoKey{}, o), o)
		if !o.Role.Includes(least) {
			p := problem.New(http.StatusForbidden, "role", fmt.Sprintf("%s is a %s; this needs the role %s", o.Name, o.Role, least))
			if err := d.Audit.RefuseRow(r, act, audit.Row{Kind: audit.Operator, Name: o.Name}, p.Detail); err != nil {
				return err
			}
			return p
		}
		w.Header().Set("Cache-Control", "no-store") // unless the handler says otherwise
		next.ServeHTTP(w, r.WithContext(ctx))
		return nil
	}))
}

// named returns a context that names the operator to the pages and the audit log.
func named(ctx context.Context, o who) context.Context {
	return audit.WithActor(webpage.WithUser(ctx, webpage.User{Name: o.Name, Session: o.bySession, Home: "/board/"}), audit.Operator, o.Name)
}

// WithReader returns a context for requests by which an operator reads the archive. name comes from
// Session.
func WithReader(ctx context.Context, name string) context.Context {
	return named(ctx, who{Operator: Operator{Name: name}, bySession: true})
}

// Session returns the name of the operator whose session a browser's request carries. It is empty
// if the request has no session, or one that has ended. Session ignores other credentials.
func (d *Door) Session(r *http.Request) (name string, err error) {
	if !d.Sessions.Given(r) {
		return "", nil
	}
	ctx, cancel := d.bounded(r.Context())
	defer cancel()
	o, err := d.whoBySession(r.WithContext(ctx))
	if errors.Is(err, ErrCredentials) || errors.Is(err, ErrSuspended) {
		return "", nil
	}
	return o.Name, err
}

// ask sends a browser without credentials to the log-in page. Otherwise it answers that credentials
// are needed, or wrong.
func (d *Door) ask(w http.ResponseWriter, r *http.Request, given bool) error {
	if d.Sessions.Ask(w, r) {
		return nil
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="sheaf operators"`)
	if webpage.Wanted(r) {
		w.Header().Set("WWW-Authenticate", `Basic realm="sheaf operators", charset="UTF-8"`)
	}
	detail := "give an operator's name and password by HTTP Basic, or the token in the service's data directory, " + d.TokenFile + ", as Authorization: Bearer"
	switch _, _, basic := r.BasicAuth(); {
	case basic:
		detail = "the operator's name or password is wrong"
	case given:
		detail = "the token is wrong; it stands in the service's data directory, " + d.TokenFile
	}
	return &problem.Error{Title: "For operators", Status: http.StatusUnauthorized, Detail: detail}
}

type whoKey struct{}

// RoleOf returns the role of the operator who makes a request, or "" if the request is not an
// operator's.
func RoleOf(ctx context.Context) Role {
	w, _ := ctx.Value(whoKey{}).(who)
	return w.Role
}

// By returns the name to record for a request's decision: that of the operator. Several people may
// use the token, so for the token By returns the name given, with "(token)" after it. Without an
// operator By returns the name given or, if that is empty, "operator".
func By(ctx context.Context, given string) string {
	w, ok := ctx.Value(whoKey{}).(who)
	switch {
	case !ok:
		return cmp.Or(given, "operator")
	case w.byToken && given != "" && given != w.Name:
		return given + " (" + w.Name + ")"
	}
	return w.Name
}

// Settings say how long a log-in with a browser lasts.
type Settings struct {
	Idle      time.Duration  `mapstructure:"idle" want:"at least 1m"` // a session ends after this time without use
	Life      time.Duration  `mapstructure:"life"`                    // every session ends after this time
	Passwords passwords.Cost `mapstructure:"-"`                       // for new passwords; only tests choose another
}

// Check checks what the tags of the settings do not say.
func (s *Settings) Check(is *settings.Checks) {
	is.Require(s.Life >= s.Idle, "login.life", s.Life, "want at least login.idle")
}

// Open sets Store, Limit, Sessions and Audit to those in a database, whose migrations must have
// run. public is the service's own URL, if it is behind a proxy.
func (d *Door) Open(database *sql.DB, s Settings, public string) (err error) {
	d.Audit, d.Limit = audit.New(audit.Options{DB: database, Log: d.Log, Slower: d.Slower}), passwords.NewLimiter(d.Log)
	d.Limit.Told = d.Audit.Try
	d.Sessions = session.New(session.Options{DB: database, Idle: s.Idle, Life: s.Life, Public: public, Slower: d.Slower})
	d.Store, err = NewStore(database, s.Passwords, d.Limit)
	return err
}

// Run trims the audit log and the sessions until ctx ends. Every process does, because it may be
// the only one.
func (d *Door) Run(ctx context.Context, keep audit.Keeping) error {
	return loop.Together(ctx, func(ctx context.Context) error { return d.Audit.Run(ctx, keep) }, func(ctx context.Context) error {
		return d.Sessions.Run(ctx, func(err error) { d.Log.ErrorContext(ctx, "sessions: not trimmed", "err", err) })
	})
}
