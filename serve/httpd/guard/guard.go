// Package guard stands before the handlers of the HTTP service, and sends their answers.
//
// Guard finds out whose request it is, refuses what pages of other sites could do in a reader's
// name, bounds how long a client may take and how many requests are under way, and answers errors
// as problem+json (RFC 9457).
//
// Beside Guard are the functions with which all handlers of the HTTP service read requests and
// write answers: links, redirects, encodings, and the service's own address.
//
// Sender sends files to consumers over HTTP, whole or by ranges, and records what they have taken.
package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/session"
	"sheaf/internal/webpage"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/records"
)

// Handler answers a request of an account. If it returns an error, the error becomes the answer. So
// it must not fail after it has begun to answer.
type Handler func(w http.ResponseWriter, r *http.Request, a *account.Account) error

// Reading returns the methods of handlers that change nothing. OPTIONS is what browsers send before
// a script of another site may read; the guard answers it. Each call returns a new slice, because
// mux.Route.Methods writes to its arguments.
func Reading() []string { return []string{http.MethodGet, http.MethodHead, http.MethodOptions} }

// Guard wraps handlers. It may be used by many goroutines at once.
type Guard struct {
	// Sessions keeps the log-ins of browsers. It may be set before the first request; nil: browsers
	// cannot log in.
	Sessions *session.Sessions

	// Audit gets a row for each request that changes something. It may be set before the first
	// handler is wrapped; nil: no rows are written.
	Audit *audit.Log

	// Operator returns the name of the operator who has logged in with the request's browser; empty
	// if nobody has. It may be set before the first request; nil: operators need an account to
	// read.
	Operator func(*http.Request) (name string, err error)

	accounts   *account.Accounts
	gate       operators.Gate
	sameOrigin func(http.Handler) http.Handler
	log        *slog.Logger
}

// New returns a guard. The gate lets operators in. public is the service's own URL, if it is behind
// a proxy; it may be empty.
func New(accounts *account.Accounts, gate operators.Gate, public string, log *slog.Logger) *Guard {
	return &Guard{accounts: accounts, gate: gate, sameOrigin: SameOrigin(public), log: log}
}

// Consumer passes requests on with their account: that of their credentials or session, or else the
// anonymous account. Browsers without an account are sent to the log-in page. Operators read with
// their session, by the account of account.ForOperator. Caches may keep an answer only for the
// reader it was made for, unless next says otherwise.
//
// A token must be good for one of the uses; all other credentials are good for everything.
func (g *Guard) Consumer(next Handler, uses ...account.Use) http.Handler {
	return g.Anybody(known(next), uses...)
}

// Query is Consumer for handlers that only read, whatever the method: a query is sent by POST where
// it is too long for a URL.
func (g *Guard) Query(next Handler, uses ...account.Use) http.Handler {
	return g.outside(g.inside(known(next), uses...))
}

// known returns next as a handler that asks clients without an account for credentials.
func known(next Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request, a *account.Account) error {
		if a == nil {
			return account.ErrCredentials
		}
		return next(w, r, a)
	}
}

// Anybody is Consumer for handlers that also answer clients without an account. If a client has not
// logged in and there is no anonymous account, the account is nil.
func (g *Guard) Anybody(next Handler, uses ...account.Use) http.Handler {
	return g.outside(g.Audit.Handler(audit.None, g.inside(next, uses...)))
}

// outside wraps a handler in the checks that come first for all consumers' requests.
func (g *Guard) outside(next http.Handler) http.Handler {
	return unstall(StallTime, allowOrigins(g.sameOrigin(next)))
}

// inside calls next with the request's account, and answers errors as problems.
func (g *Guard) inside(next Handler, uses ...account.Use) http.Handler {
	return problem.Handler(g.log, func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Cache-Control", "private, no-cache")
		a, operator, bySession, err := g.account(r)
		switch {
		case operator != "":
			r = r.WithContext(operators.WithReader(r.Context(), operator))
		case a != nil && a.Stored(): // anonymous consumers count as visitors
			r = r.WithContext(audit.WithActor(r.Context(), audit.Account, a.Name))
			r = r.WithContext(webpage.WithUser(r.Context(), webpage.User{Name: a.Name, Session: bySession}))
		}
		if err == nil && a != nil && !a.May(uses...) {
			err = problem.New(http.StatusForbidden, "token_use", fmt.Sprintf("this token is good for %s; here it would have to be good for %s", listed(a.Token().Uses), listed(append(slices.Clone(uses), account.ForAll))))
		}
		if err == nil && a != nil && a.Name != account.Anonymous {
			err = audit.Begin(r.Context())
		}
		if err == nil {
			err = next(w, r, a)
		}
		if errors.Is(err, account.ErrCredentials) && !strings.HasPrefix(r.URL.Path, api.PathReplay) && g.Sessions.Ask(w, r) {
			return nil
		}
		return g.problem(w, r, err)
	})
}

// Named is Consumer for handlers that need an account with an owner: neither the anonymous account
// nor that of an operator.
func (g *Guard) Named(next Handler, uses ...account.Use) http.Handler {
	return g.Consumer(func(w http.ResponseWriter, r *http.Request, a *account.Account) error {
		if !a.Stored() {
			return account.ErrCredentials
		}
		return next(w, r, a)
	}, uses...)
}

// Owner is Named for handlers that change the account's password or tokens: it refuses requests
// that show a token.
func (g *Guard) Owner(next Handler) http.Handler {
	return g.Named(func(w http.ResponseWriter, r *http.Request, a *account.Account) error {
		if a.Token() != nil {
			return problem.New(http.StatusForbidden, "token_use", "this needs the account's password or a log-in with a browser; no token is good for it")
		}
		return next(w, r, a)
	})
}

// listed writes uses as words.
func listed(uses []account.Use) string {
	var words []string
	for _, u := range uses {
		words = append(words, string(u))
	}
	return strings.Join(words, " or ")
}

// Operators returns a function that mounts operations of operators on a router. Explain returns the
// problem to answer for an error.
func (g *Guard) Operators(r *mux.Router, explain func(error) error) route.Mount {
	gate := operators.Gate(func(least operators.Role, act audit.Act, next http.Handler) http.Handler {
		return g.sameOrigin(g.gate(least, act, next))
	})
	return gate.Mount(r, g.log, explain)
}

// Consumers returns a function that mounts operations of consumers on a router, behind a wrapper
// such as Consumer. The operations get the account by Account. Operations with GET also answer HEAD
// and OPTIONS.
func (g *Guard) Consumers(r *mux.Router, wrap func(Handler) http.Handler, explain func(error) error) route.Mount {
	return func(op *route.Route, h route.Handler) {
		methods := []string{op.Method}
		if op.Method == http.MethodGet {
			methods = Reading()
		}
		r.Handle(op.Path, wrap(func(w http.ResponseWriter, r *http.Request, a *account.Account) error {
			err := h(w, r.WithContext(context.WithValue(r.Context(), accountKey{}, a)))
			if err != nil && explain != nil {
				err = explain(err)
			}
			return err
		})).Methods(methods...)
	}
}

// Everybody returns a function that mounts operations behind Public. Operations with GET also
// answer HEAD.
func (g *Guard) Everybody(r *mux.Router) route.Mount {
	return func(op *route.Route, h route.Handler) {
		methods := []string{op.Method}
		if op.Method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		r.Handle(op.Path, g.Public(h)).Methods(methods...)
	}
}

// Elsewhere describes an answer with status 307, for the description of the API.
const Elsewhere = "A large file that the object store has: to there. Location is good for some minutes, for anybody; Repr-Digest is the file's"

type accountKey struct{}

// Account returns the account whose request an operation answers. It panics unless ctx comes from
// Consumers.
func Account(ctx context.Context) *account.Account {
	return ctx.Value(accountKey{}).(*account.Account)
}

// Raw returns the handler of an operation that reads the request and writes the answer by itself.
func Raw(h Handler) route.Handler {
	return func(w http.ResponseWriter, r *http.Request) error { return h(w, r, Account(r.Context())) }
}

// For returns Consumer with the given uses, as a wrapper for Consumers.
func (g *Guard) For(uses ...account.Use) func(Handler) http.Handler {
	return func(next Handler) http.Handler { return g.Consumer(next, uses...) }
}

// Public passes on all requests, except changes from a page of another site. A handler that changes
// something must call audit.Begin first.
func (g *Guard) Public(next func(http.ResponseWriter, *http.Request) error) http.Handler {
	return g.sameOrigin(g.Audit.Handler(audit.None, problem.Handler(g.log, next)))
}

// account returns the account of a request, and the operator's name if the account is an
// operator's. It looks for the account of the request's credentials, then of its session, then of
// the operator who has a session (account.ForOperator), and then for the anonymous account. If it
// finds no account, it returns nil. It fails with account.ErrCredentials if credentials are given
// and wrong.
func (g *Guard) account(r *http.Request) (a *account.Account, operator string, bySession bool, err error) {
	if name, password, given := r.BasicAuth(); given {
		a, err = g.accounts.Login(r.Context(), name, password, r.RemoteAddr)
	} else if token, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); given && strings.HasPrefix(token, account.TokenPrefix) {
		a, err = g.accounts.LoginToken(r.Context(), token, r.RemoteAddr)
	} else if a, err = g.sessionAccount(r); a != nil || err != nil {
		bySession = true
	} else if operator, err = g.reader(r); operator != "" || err != nil {
		a = account.ForOperator(operator)
	} else {
		a = g.accounts.Anonymous()
	}
	if a == nil || err != nil {
		return nil, "", false, err
	}
	return a.From(r.RemoteAddr), operator, bySession, nil
}

// reader returns the name of the operator who has logged in with a session. It returns "" if nobody
// has, or if the request may change something.
func (g *Guard) reader(r *http.Request) (string, error) {
	if g.Operator == nil || !audit.Reads(r.Method) {
		return "", nil
	}
	name, err := g.Operator(r)
	if err != nil {
		return "", fmt.Errorf("%w: %w", account.ErrAway, err)
	}
	return name, nil
}

// sessionAccount returns the account that has logged in with a session; nil if none has, or if the
// session is no longer good.
func (g *Guard) sessionAccount(r *http.Request) (*account.Account, error) {
	who, ok, err := g.Sessions.Who(r, session.Account)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", account.ErrAway, err)
	}
	if !ok {
		return nil, nil
	}
	a, err := g.accounts.Resume(r.Context(), who.Name, who.Mark)
	if errors.Is(err, account.ErrCredentials) { // it has another password, or is no more: the session is over
		return nil, nil
	}
	return a, err
}

// problem turns an error of the packages below into the problem to answer. It returns other errors
// as they are.
func (g *Guard) problem(w http.ResponseWriter, r *http.Request, err error) error {
	var (
		closed    *account.ClosedError
		quota     *account.QuotaError
		damage    *records.DamageError
		parameter *records.ParamError
	)
	later := func(status int, reason, detail string, next time.Time) error {
		p := problem.New(status, reason, detail)
		if !next.IsZero() {
			p.Next = next.UTC().Format(time.RFC3339)
		}
		return p
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &parameter):
		return problem.New(http.StatusBadRequest, "parameter", parameter.Error())
	case errors.Is(err, records.ErrCursorExpired):
		return problem.New(http.StatusGone, "cursor_expired", err.Error())
	case errors.Is(err, account.ErrCredentials):
		w.Header().Set("WWW-Authenticate", `Basic realm="sheaf", charset="UTF-8"`)
		detail := "give the name and password of an account, by HTTP Basic, or a token as Authorization: Bearer"
		if r.Header.Get("Authorization") != "" {
			detail = "the account's name or password is wrong, or the token is"
		}
		return problem.New(http.StatusUnauthorized, "credentials", detail)
	case errors.Is(err, account.ErrSuspended):
		return problem.New(http.StatusForbidden, "suspended", err.Error())
	case errors.Is(err, account.ErrAway):
		g.log.ErrorContext(r.Context(), "login failed", "err", err)
		return later(http.StatusServiceUnavailable, "accounts_away", "accounts cannot be checked now; come again in a moment", time.Now().Add(time.Minute))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problem.New(http.StatusRequestTimeout, "body_stalled", "the request's body did not come; send it again")
	case errors.As(err, &damage): // the library has logged it
		return problem.New(http.StatusInternalServerError, "damaged", "what is stored of this page is damaged, and is not shown; the service's log names it")
	case errors.Is(err, library.ErrChanged):
		return problem.New(http.StatusGone, "changed", err.Error())
	case errors.Is(err, library.ErrNotFound), errors.Is(err, library.ErrIsDirectory):
		return problem.New(http.StatusNotFound, "not_found", fmt.Sprintf("%s is not here, or not within this account's scope", r.URL.Path))
	case errors.Is(err, library.ErrNoSpace):
		g.log.ErrorContext(r.Context(), "no space for a temporary file", "path", r.URL.Path, "err", err)
		return later(http.StatusServiceUnavailable, "no_space", library.ErrNoSpace.Error(), time.Now().Add(time.Minute))
	case errors.Is(err, library.ErrCursor):
		return problem.New(http.StatusBadRequest, "cursor", err.Error()+"; start again without after")
	case errors.As(err, &quota):
		return later(http.StatusTooManyRequests, "quota_used_up", quota.Error(), quota.Next)
	case errors.As(err, &closed):
		return later(http.StatusServiceUnavailable, "window_closed", closed.Error(), closed.Next)
	}
	return err
}
