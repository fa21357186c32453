// Package guard stands before the handlers of the HTTP service. It finds out whose request it is,
// refuses what pages of other sites could do in a reader's name, bounds how long a client may take
// and how many requests are under way, and answers errors as problem+json (RFC 9457).
package guard

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"sheaf/internal/problem"
	"sheaf/serve/account"
	"sheaf/serve/bandwidth"
	"sheaf/serve/bundle"
	"sheaf/serve/content"
	"sheaf/serve/query"
	"sheaf/serve/records"
	"sheaf/serve/visible"
)

// Handler answers a request of an account. The error that it returns becomes the answer, so it must
// not have begun one by then.
type Handler func(w http.ResponseWriter, r *http.Request, a *account.Account) error

// Reading returns the methods of handlers that change nothing. OPTIONS is what browsers send before a
// script of another site may read; the guard answers it. Each call returns another slice, because
// mux.Route.Methods writes to its arguments.
func Reading() []string { return []string{http.MethodGet, http.MethodHead, http.MethodOptions} }

// Guard wraps handlers. It may be used by many goroutines at once.
type Guard struct {
	accounts   *account.Accounts
	operator   func(http.Handler) http.Handler
	sameOrigin func(http.Handler) http.Handler
	log        *slog.Logger
}

// New returns a guard. The middleware operator passes requests of operators on and refuses all
// others. Public is the service's own URL, if it is behind a proxy; it may be empty.
func New(accounts *account.Accounts, operator func(http.Handler) http.Handler, public string, log *slog.Logger) *Guard {
	return &Guard{accounts: accounts, operator: operator, sameOrigin: SameOrigin(public), log: log}
}

// Consumer passes requests on with the account whose credentials they carry, or with the anonymous
// account. Caches may keep an answer only for the reader it was made for, unless next says
// otherwise.
func (g *Guard) Consumer(next Handler) http.Handler {
	return unstall(StallTime, allowOrigins(g.sameOrigin(problem.Handler(g.log, func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Cache-Control", "private, no-cache")
		account, err := g.Account(r)
		if err == nil {
			err = next(w, r, account)
		}
		return g.problem(w, r, err)
	}))))
}

// Named is Consumer for handlers that the anonymous account may not use.
func (g *Guard) Named(next Handler) http.Handler {
	return g.Consumer(func(w http.ResponseWriter, r *http.Request, a *account.Account) error {
		if a.Name == account.Anonymous {
			return account.ErrCredentials
		}
		return next(w, r, a)
	})
}

// Operator passes requests of operators on.
func (g *Guard) Operator(next func(http.ResponseWriter, *http.Request) error) http.Handler {
	return g.sameOrigin(g.operator(g.Public(next)))
}

// Public passes all requests on.
func (g *Guard) Public(next func(http.ResponseWriter, *http.Request) error) http.Handler {
	return problem.Handler(g.log, next)
}

// Account returns whose request it is: the account whose credentials it carries or, where it has
// none, the anonymous account. It fails with account.ErrCredentials if neither will do.
func (g *Guard) Account(r *http.Request) (*account.Account, error) {
	name, password, given := r.BasicAuth()
	if !given {
		if a := g.accounts.Anonymous(); a != nil {
			return a.From(r.RemoteAddr), nil
		}
		return nil, account.ErrCredentials
	}
	account, err := g.accounts.Login(r.Context(), name, password, r.RemoteAddr)
	if err != nil {
		return nil, err
	}
	return account.From(r.RemoteAddr), nil
}

// problem returns the problem to answer for an error of the rooms below. Other errors it returns as
// they are.
func (g *Guard) problem(w http.ResponseWriter, r *http.Request, err error) error {
	var (
		closed    *account.ClosedError
		quota     *bandwidth.QuotaError
		damage    *records.DamageError
		parameter *query.ParamError
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
	case errors.Is(err, query.ErrExpired):
		return problem.New(http.StatusGone, "cursor_expired", err.Error())
	case errors.Is(err, account.ErrCredentials):
		w.Header().Set("WWW-Authenticate", `Basic realm="sheaf", charset="UTF-8"`)
		detail := "give the name and password of an account, by HTTP Basic"
		if _, _, given := r.BasicAuth(); given {
			detail = "the account's name or password is wrong"
		}
		return problem.New(http.StatusUnauthorized, "credentials", detail)
	case errors.Is(err, account.ErrAway):
		g.log.ErrorContext(r.Context(), "login failed", "err", err)
		return later(http.StatusServiceUnavailable, "accounts_away", "accounts cannot be checked now; come again in a moment", time.Now().Add(time.Minute))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problem.New(http.StatusRequestTimeout, "body_stalled", "the request's body did not come; send it again")
	case errors.As(err, &damage): // the library has logged it
		return problem.New(http.StatusInternalServerError, "damaged", "what is stored of this page is damaged, and is not shown; the service's log names it")
	case errors.Is(err, bundle.ErrChanged):
		return problem.New(http.StatusGone, "changed", err.Error())
	case errors.Is(err, content.ErrNotFound), errors.Is(err, content.ErrIsDirectory):
		return problem.New(http.StatusNotFound, "not_found", fmt.Sprintf("%s is not here, or not within this account's scope", r.URL.Path))
	case errors.Is(err, visible.ErrCursor):
		return problem.New(http.StatusBadRequest, "cursor", err.Error()+"; start again without after")
	case errors.As(err, &quota):
		return later(http.StatusTooManyRequests, "quota_used_up", quota.Error(), quota.Next)
	case errors.As(err, &closed):
		return later(http.StatusServiceUnavailable, "window_closed", closed.Error(), closed.Next)
	}
	return err
}
