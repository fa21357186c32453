// Package ui has the service's pages for people with a browser:
//
//	/                    what the archive is, how large, what is new, how to fetch it; JSON for programs
//	/account             what the account may fetch and has fetched; its tokens and password
//	/watches             the account's watches; with url or host, a form for watching it
//	/find?q=             leads to the page, host or domain with this name, or lists the hosts with
//	                     this text in their names
//	/browse/jp/ac/…/     one page for each place of the tree: a host's editions, and the places below it
//	/webmasters          who visits, and how to be left out
//	/robots.txt, /.well-known/security.txt
//
// It may use every other room, and no room uses it. All pages work without a script.
package ui

import (
	"cmp"
	"embed"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/gorilla/mux"
	lru "github.com/hashicorp/golang-lru/v2"

	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
	"sheaf/internal/window"
	"sheaf/serve"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
)

// Options say what the pages show. Site, Room and Guard are required.
type Options struct {
	Site  *webpage.Site
	Room  *serve.Room  // has a Library; without its Accounts, readers cannot change theirs here, and without its Watches they cannot watch
	Guard *guard.Guard // finds the account of a request
	About string       // owner and purpose of the archive, in a sentence or two; may be empty

	AboutJapanese string // on Japanese pages; empty: About

	Transfers *transfers.Log     // nil: downloads are not listed
	Running   *transfers.Running // transfers of this process; may be nil

	Publish *window.Schedule // when editions are published; nil: at any time
	Public  string           // the service's own URL; empty: as in the reader's browser
	FTP     string           // host:port at which the FTP server listens; empty: there is none
	Log     *slog.Logger     // default: none
}

// face has the data that the pages share.
type face struct {
	Options
	census *census
	titles *lru.Cache[string, string] // titles of pages in editions, by segment, URL and time
}

// Register mounts the pages. It returns an error if a required option is missing.
func Register(r *mux.Router, opt Options) error {
	if opt.Room == nil || opt.Guard == nil || opt.Site == nil {
		return errors.New("ui: options lack a room, a guard or a site")
	}
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	titles, err := lru.New[string, string](10 * newest)
	if err != nil {
		return err
	}
	f := &face{Options: opt, census: &census{room: opt.Room, log: opt.Log}, titles: titles}
	webpage.Register(r)
	g := opt.Guard
	for _, mounted := range []struct {
		wrap func(guard.Handler) http.Handler
		ops  func(route.Mount)
	}{
		{func(h guard.Handler) http.Handler { return g.Anybody(h, account.Uses()...) }, f.forAll},
		{g.For(account.ForQueries), f.forReaders},
		{func(h guard.Handler) http.Handler { return g.Named(h) }, f.forAccounts},
	} {
		mounted.ops(g.Consumers(r, func(h guard.Handler) http.Handler { return problem.Within(mounted.wrap(h)) }, nil))
	}
	f.forOwners(g.Consumers(r, g.Owner, nil))
	f.forEverybody(func(op *route.Route, h route.Handler) {
		r.Handle(op.Path, problem.Within(g.Public(h))).Methods(http.MethodGet, http.MethodHead)
	})
	return nil
}

//go:embed pages/*.html
var pages embed.FS

// page reads one page's template.
func page(name string) webpage.Template { return webpage.ParseFiles(pages, "pages/"+name+".html") }

// commands has the beginnings of commands for copying. The zero value has none.
type commands struct {
	Base string // the service's URL
	FTP  string // host:port of the FTP server; empty: the reader cannot reach it
}

// commands returns the beginnings of commands for a reader.
func (f *face) commands(r *http.Request) commands {
	base, ftp := guard.Reached(f.Public, f.FTP, r)
	return commands{base, ftp}
}

// nextPublication returns when the next edition may appear; the zero time means at any moment.
func (f *face) nextPublication(now time.Time) time.Time {
	if f.Publish.Open(now) {
		return time.Time{}
	}
	next, _ := f.Publish.Next(now)
	return next
}
