// Package httpd serves the Library over HTTP:
//
//	/pub/…                                   the one tree, with listings that wget -r and rclone can walk
//	/a/<host>.<form>                         the host's current archive
//	/a/<host>/<edition>|current|all.<form>   any of its archives
//	/a/<host>/<day>-<day>.<form>             what the editions of these days brought
//	/v1/hosts?prefix=&after=&limit=          the hosts of the account's scope
//	/v1/editions, /v1/version                what was published
//	/v1/changes?since=&mark=&surt=&wait=     what was published and withdrawn, by sequence number
//	/v1/cdx?url=&from=&to=…                  index lines of records (package query)
//	/v1/pages.<form>?url=&from=&to=…         the records themselves, as one file
//	/v1/coverage?url=&from=&to=              what robots did not collect, and why
//	/v1/jobs                                 what was POSTed there: gathered in the background
//	/v1/admin/accounts                       for operators
//	/web/<timestamp>[id_]/<URL>              a stored page, to read; id_: its bytes
//	/web/*/<URL>                             the page's versions
//	/timegate/<URL>, /timemap/link|json/<URL>  RFC 7089 (Memento)
//	/diff/<timestamp>/<timestamp>/<URL>      what changed between two versions
//	/replay/?source=/a/<host>.wacz           ReplayWeb.page, if the operator has put it here
//
// <form> is tar.gz, warc.gz, links.gz, members.tar.gz, cdxj or wacz. Accounts come by HTTP Basic.
// Files have strong ETags and take Range (several too), If-Range and the other
// conditions; what of them lies in local files leaves by sendfile. Scripts of other
// sites may read (CORS), as players of archives do. An error is a problem+json. What is listed, found and allowed is the Library's to
// say: this package knows no catalog.
package httpd

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/acked"
	"sheaf/internal/guesses"
	"sheaf/internal/problem"
	"sheaf/internal/transfers"
	"sheaf/serve"
	"sheaf/serve/account"
	"sheaf/serve/bandwidth"
	"sheaf/serve/jobs"
	"sheaf/serve/query"
	"sheaf/serve/watch"
)

// Options of the handlers. Library, Accounts, Recorder and Operator are needed.
type Options struct {
	Library  *serve.Library
	Accounts *account.Accounts
	Recorder serve.Recorder
	Operator func(http.Handler) http.Handler // lets operators pass and nobody else
	Version  string                          // of the program, for /v1/version
	Stopping <-chan struct{}                 // closed when the service begins to stop: who waits for changes is answered
	Public   string                          // the service's own URL, where a proxy speaks for it; may be empty
	Zone     *time.Location                  // of the times that people read; default UTC
	Replay   string                          // directory with ReplayWeb.page's ui.js and sw.js; empty: not offered
	// ReplayOrigin is where ReplayWeb.page runs, such as https://replay.example.jp; empty: nowhere.
	// The service's handler must go through ReplayOnly.
	ReplayOrigin string
	Watches      *watch.Watches // nil: consumers cannot watch
	Log          *slog.Logger   // default: slog.Default

	// Budget is what one answer of /v1/cdx may cost before it ends early, with a
	// cursor; default two million records looked at, or 20 seconds.
	Budget query.Budget

	// Running is told of downloads under way; nil: nobody asks.
	Running *transfers.Running
	// Measures follows downloads until their last byte is acknowledged, where connections are
	// acked.Conn; nil: one of its own.
	Measures *acked.Follower

	// Jobs takes queries whose answers are too much at once; nil: none are taken.
	Jobs *jobs.Jobs
}

const (
	defaultBudgetRecords = 2_000_000
	defaultBudgetTime    = 20 * time.Second
)

// server holds what the handlers share.
type server struct {
	Options
	sameOrigin func(http.Handler) http.Handler
	searches   *gate         // what answers of queries cost
	lists      *gate         // of them, those with a list
	polls      *gate         // who waits for changes
	comparing  chan struct{} // bounds how many comparisons run at once
}

// Register mounts the handlers.
func Register(r *mux.Router, opt Options) error {
	if opt.Library == nil || opt.Accounts == nil || opt.Recorder == nil || opt.Operator == nil {
		return errors.New("httpd: options lack a library, accounts, recorder or operator middleware")
	}
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	if opt.Budget.Records == 0 && opt.Budget.Time == 0 {
		opt.Budget = query.Budget{Records: defaultBudgetRecords, Time: defaultBudgetTime}
	}
	if opt.Measures == nil {
		opt.Measures = acked.NewFollower()
	}
	if opt.Zone == nil {
		opt.Zone = time.UTC
	}
	s := &server{Options: opt, sameOrigin: SameOrigin(opt.Public), searches: newSearches(), lists: newLists(), polls: newPolls(), comparing: make(chan struct{}, runtime.GOMAXPROCS(0))}
	get := func(path string, h func(http.ResponseWriter, *http.Request, *account.Account) error) {
		r.Handle(path, s.authenticated(h)).Methods(http.MethodGet, http.MethodHead, http.MethodOptions)
	}
	r.HandleFunc("/pub", func(w http.ResponseWriter, r *http.Request) { moved(w, r, "/pub/") })
	get("/pub/{path:.*}", s.tree)
	get("/a/{file}", s.currentArchive)
	get("/a/{host}/{file}", s.archive)
	get("/v1/hosts", s.hosts)
	get("/v1/editions", s.editions)
	get("/v1/version", s.version)
	get(PathChanges, s.changes)
	get("/v1/cdx", s.cdx)
	get(PathPages+archiveForm, s.pages)
	if opt.Jobs != nil {
		s.registerJobs(r, get)
	}
	get("/v1/coverage", s.coverage)
	r.Handle("/v1/coverage", s.authenticated(s.coverage)).Methods(http.MethodPost)
	r.Handle("/v1/cdx", s.authenticated(s.cdx)).Methods(http.MethodPost)
	s.registerAdmin(r)
	s.registerPages(r)
	if s.Watches != nil {
		s.registerWatches(r)
	}
	return s.registerReplay(r)
}

// authenticated passes requests on with the account whose credentials they carry.
func (s *server) authenticated(next func(http.ResponseWriter, *http.Request, *account.Account) error) http.Handler {
	return unstall(stallTime, allowOrigins(s.sameOrigin(problem.Handler(s.Log, func(w http.ResponseWriter, r *http.Request) error {
		account, err := s.login(r)
		if err == nil {
			err = next(w, r, account)
		}
		return s.answer(w, r, err)
	}))))
}

func (s *server) login(r *http.Request) (*account.Account, error) {
	name, password, given := r.BasicAuth()
	if !given {
		if a := s.Accounts.Anonymous(); a != nil {
			return a.From(r.RemoteAddr), nil
		}
		return nil, account.ErrCredentials
	}
	account, err := s.Accounts.Login(r.Context(), name, password, r.RemoteAddr)
	if err != nil {
		return nil, err
	}
	return account.From(r.RemoteAddr), nil
}

// answer turns the library's errors into problems.
func (s *server) answer(w http.ResponseWriter, r *http.Request, err error) error {
	var closed *account.ClosedError
	var quota *bandwidth.QuotaError
	var damage *serve.DamageError
	var tooMany *guesses.TooMany
	if p := queryProblem(err); p != nil {
		return p
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, account.ErrCredentials):
		w.Header().Set("WWW-Authenticate", `Basic realm="sheaf", charset="UTF-8"`)
		detail := "give the name and password of an account, by HTTP Basic"
		if _, _, given := r.BasicAuth(); given {
			detail = "the account's name or password is wrong"
		}
		return problem.New(http.StatusUnauthorized, "credentials", detail)
	case errors.As(err, &tooMany):
		return tooMany.Problem()
	case errors.Is(err, account.ErrAway):
		s.Log.ErrorContext(r.Context(), "login failed", "err", err)
		p := problem.New(http.StatusServiceUnavailable, "accounts_away", "accounts cannot be checked now; come again in a moment")
		p.Next = time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
		return p
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problem.New(http.StatusRequestTimeout, "body_stalled", "the request's body did not come; send it again")
	case errors.As(err, &damage): // the library has logged it
		return problem.New(http.StatusInternalServerError, "damaged", "what is stored of this page is damaged, and is not shown; the service's log names it")
	case errors.Is(err, serve.ErrChanged):
		return problem.New(http.StatusGone, "changed", err.Error())
	case errors.Is(err, serve.ErrNotFound), errors.Is(err, serve.ErrIsDirectory):
		return problem.New(http.StatusNotFound, "not_found", fmt.Sprintf("%s is not here, or not within this account's scope", r.URL.Path))
	case errors.Is(err, serve.ErrCursor):
		return problem.New(http.StatusBadRequest, "cursor", err.Error()+"; start again without after")
	case errors.As(err, &quota):
		p := problem.New(http.StatusTooManyRequests, "quota_used_up", quota.Error())
		p.Next = quota.Next.UTC().Format(time.RFC3339)
		return p
	case errors.As(err, &closed):
		p := problem.New(http.StatusServiceUnavailable, "window_closed", closed.Error())
		if !closed.Next.IsZero() {
			p.Next = closed.Next.UTC().Format(time.RFC3339)
		}
		return p
	}
	return err
}
