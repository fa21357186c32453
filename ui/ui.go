// Package ui is the service's face, for people with a browser:
//
//	/                    what the archive is, how large, what is new, how to fetch it; JSON for programs
//	/find?q=             leads to the page, host or domain that was asked for
//	/browse/jp/ac/…/     one page for each place of the tree: a host's editions, and what is below it
//	/webmasters          who visits, and how to be left out
//	/robots.txt, /.well-known/security.txt
//
// It may ask every other room, and none of them knows it. All pages work without a script.
package ui

import (
	"embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/problem"
	"sheaf/internal/webpage"
	"sheaf/internal/window"
	"sheaf/serve"
	"sheaf/serve/account"
)

// Options say what the pages show. Library, Account and Site are needed.
type Options struct {
	Site    *webpage.Site
	Library *serve.Library
	// Account finds whose request it is. It fails with account.ErrCredentials where the request has to
	// be repeated with a name and a password.
	Account func(*http.Request) (*account.Account, error)
	// Guard wraps the handlers of pages that belong to an account, and answers their errors.
	Guard func(func(http.ResponseWriter, *http.Request, *account.Account) error) http.Handler
	About string // whose archive it is and what for, in a sentence or two; may be empty

	Publish *window.Schedule // when editions are published; nil: at any time
	Public  string           // the service's own URL; empty: what the reader's browser has
	FTP     string           // address of the FTP server, as host:port; empty: there is none
	Log     *slog.Logger     // default: none
}

// face holds what the pages share.
type face struct {
	Options
	census *census
}

// Register mounts the pages.
func Register(r *mux.Router, opt Options) error {
	if opt.Library == nil || opt.Account == nil || opt.Guard == nil || opt.Site == nil {
		return errors.New("ui: options lack a library, an account function, a guard or a site")
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	f := &face{Options: opt, census: &census{library: opt.Library, log: opt.Log}}
	webpage.Register(r)
	get := func(path string, h http.Handler) { r.Handle(path, h).Methods(http.MethodGet, http.MethodHead) }
	open := func(h func(http.ResponseWriter, *http.Request) error) http.Handler {
		return problem.Handler(opt.Log, h)
	}
	get("/", open(f.front))
	get("/webmasters", open(f.webmasters))
	get("/robots.txt", http.HandlerFunc(robotsTxt))
	get("/.well-known/security.txt", http.HandlerFunc(f.securityTxt))
	get("/find", opt.Guard(f.find))
	get("/browse/{place:.*}", opt.Guard(f.place))
	return nil
}

//go:embed pages/*.html
var pages embed.FS

// page reads one page's template.
func page(name string) *template.Template { return webpage.Parse(pages, "pages/"+name+".html") }

// base is the service's URL as the reader of the request writes it.
func (f *face) base(r *http.Request) string {
	if f.Public != "" {
		return f.Public
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}

// nextPublication is when the next edition may appear; the zero time is at any moment.
func (f *face) nextPublication(now time.Time) time.Time {
	if f.Publish.Open(now) {
		return time.Time{}
	}
	next, _ := f.Publish.Next(now)
	return next
}
