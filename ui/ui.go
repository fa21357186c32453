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
	"slices"
	"time"

	"github.com/gorilla/mux"
	lru "github.com/hashicorp/golang-lru/v2"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
	"sheaf/internal/window"
	"sheaf/serve"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/watch"
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

// Queries and forms of the pages.
type (
	findQuery struct {
		Q string `query:"q" doc:"a URL, a host or a domain"`
	}
	placeQuery struct {
		After string `query:"after" doc:"where a long list goes on"`
	}
	watchingQuery struct {
		URL  string `query:"url" doc:"a page"`
		Host string `query:"host" doc:"a host"`
	}
	watchForm struct {
		Act    string        `form:"act" enum:"add,save,remove" required:"true"`
		Target string        `form:"target"`
		Kind   watch.Kind    `form:"kind" enum:"url,prefix,host"`
		Email  string        `form:"email"`
		Every  watch.Cadence `form:"every"`
		Watch  string        `form:"watch"`
	}
	accountForm struct {
		Act   string        `form:"act" enum:"password,email,token,revoke" required:"true"`
		Old   string        `form:"old"`
		New   string        `form:"new"`
		Email string        `form:"email"`
		Name  string        `form:"name"`
		Use   []account.Use `form:"use"`
		Days  int           `form:"days" min:"0" max:"36500" doc:"until a token expires; 0: never"`
		Token string        `form:"token"`
	}
)

const html = "text/html"

// Operations for readers.
var (
	front         = route.New[route.None, Front](http.MethodGet, "/", route.Visitor, audit.None, "The front page; its figures as JSON for programs").Under("people").Saying("What the reader's account may not see is left out.").Answering(http.StatusOK, "A page, or JSON").Also(http.StatusOK, html, "")
	find          = webpage.Lead[findQuery](api.PathFind, route.Account, http.StatusSeeOther, "Leads to the page, host or domain that is asked for", "To it").Also(http.StatusNotFound, html, "A page that says so")
	browse        = webpage.Get[placeQuery]("/browse/{place:.*}", route.Account, "The page of a domain or host").Also(http.StatusMovedPermanently, "", "To the path with a slash at its end")
	watching      = webpage.Get[watchingQuery](api.PathWatching, route.Account, "The account's watches; with url or host also a form that watches it")
	changeWatches = webpage.Form[watchForm](api.PathWatching, route.Account, audit.None, "Begins a watch or ends one, by a form of this site", "To the account's watches")
	showAccount   = webpage.Get[route.None](pathAccount, route.Account, "What the account may fetch").Also(http.StatusSeeOther, "", "A browser has not logged in: to the log-in page")
	changeAccount = webpage.Form[accountForm](pathAccount, route.Account, audit.None, "Change the password or the mail address, make a token or revoke one", "Done; back to the page").Saying("No token is good for this.").
			Also(http.StatusOK, html, "The page, with the new token").Also(http.StatusUnprocessableEntity, html, "The page, which says what is wrong")

	webmasters = webpage.Get[route.None]("/webmasters", route.Anybody, "For owners of sites: who visits, and how to be left out")
	robots     = text("/robots.txt", "Keeps search engines to the pages about the archive", "RFC 9309")
	security   = text("/.well-known/security.txt", "Whom to tell of a hole", "RFC 9116")
)

// text defines the operation that answers with a text for programs.
func text(path, summary, answer string) route.Op[route.None, route.None] {
	return route.New[route.None, route.None](http.MethodGet, path, route.Anybody, audit.None, summary).Under("people").Answering(http.StatusOK, answer).Sends("text/plain")
}

func (f *face) forAll(mount route.Mount) { front.Raw(mount, guard.Raw(f.front)) }

func (f *face) forReaders(mount route.Mount) {
	find.Raw(mount, guard.Raw(f.find))
	browse.Raw(mount, guard.Raw(f.place))
}

func (f *face) forAccounts(mount route.Mount) {
	if f.Room.Watches != nil {
		watching.Raw(mount, guard.Raw(f.watching))
		changeWatches.Raw(mount, guard.Raw(f.changeWatches))
	}
	showAccount.Raw(mount, guard.Raw(f.account))
}

func (f *face) forOwners(mount route.Mount) {
	if f.Room.Accounts != nil {
		changeAccount.Raw(mount, guard.Raw(f.changeAccount))
	}
}

func (f *face) forEverybody(mount route.Mount) {
	webmasters.Raw(mount, f.webmasters)
	robots.Raw(mount, robotsTxt)
	security.Raw(mount, f.securityTxt)
}

// Routes returns the operations, for the API description.
func Routes() []*route.Route {
	f := &face{Options: Options{Room: &serve.Room{Accounts: new(account.Accounts), Watches: new(watch.Watches)}}}
	return slices.Concat(route.List(f.forAll), route.List(f.forReaders), route.List(f.forAccounts), route.List(f.forOwners), route.List(f.forEverybody))
}
