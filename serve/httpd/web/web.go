// Package web shows stored pages, and the versions of a page, to people and to programs:
//
//	/web/<timestamp>[id_|txt_]/<URL>           a stored page, to read; id_: its bytes; txt_: its text
//	/web/*/<URL>                               the page's versions
//	/timegate/<URL>, /timemap/link|json/<URL>  RFC 7089 (Memento)
//	/diff/<timestamp>/<timestamp>/<URL>        what changed between two versions
//
// # Player
//
// The player is ReplayWeb.page, a player of archives that runs in the browser, at
// /replay/?source=/a/<host>.wacz, if the operator has put its files here. The player runs scripts
// of stored pages. It therefore has an origin of its own.
package web

import (
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	neturl "net/url"
	"runtime"
	"strings"

	"github.com/gorilla/mux"

	"sheaf/archive/naming"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/peer"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/webpage"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/records"
	"sheaf/serve/replay"
)

// Pages serves stored pages, lists of their versions, and comparisons.
type Pages struct {
	Access  *account.Access
	Records *records.Records
	Limits  *guard.Limits
	Sender  *guard.Sender
	Public  string // the service's own URL, if it is behind a proxy
	Site    *webpage.Site
	Player  string // origin of ReplayWeb.page; empty: it is not offered
	Log     *slog.Logger

	Watching bool // readers can watch pages

	comparing chan struct{} // bounds how many comparisons and extractions run at once
}

//go:embed *.html
var templates embed.FS

// diffQuery is the query of the form of comparisons.
type diffQuery struct {
	From string `query:"from" doc:"timestamp"`
	To   string `query:"to" doc:"timestamp"`
	URL  string `query:"url" doc:"URL"`
}

// timeMapOf has the format of a TimeMap, as its path names it.
type timeMapOf struct {
	As string `path:"as" enum:"link,json"`
}

func read[In, Out any](path, summary string) route.Op[In, Out] {
	return route.New[In, Out](http.MethodGet, path, route.Account, audit.None, summary).Under("replay").Answering(http.StatusOK, "")
}

// Routes returns the operations, for the API's description. A URL in a path has its own slashes and
// question mark.
func Routes() []*route.Route {
	return []*route.Route{
		read[route.None, route.None](replay.Root+"{timestamp}/{url:.*}", "A stored page as it was at a time, or the list of its versions for *").Saying("Other answers are those of the stored page: its status and media type.").
			Sends("text/html", "application/octet-stream").Also(http.StatusPartialContent, "", "Ranges of a stored body; pages written for their reader have none").Also(http.StatusFound, "", "To the version that there is").
			Also(http.StatusNotModified, "", "").Also(http.StatusNotFound, "text/html", "Not stored").Also(http.StatusNotFound, "application/problem+json", "").Route,
		read[route.None, route.None](api.PathTimeGate+"{url:.*}", "RFC 7089 TimeGate").Answering(http.StatusFound, "To the version nearest to Accept-Datetime").Route,
		read[timeMapOf, api.TimeMap](api.PathTimeMap+"{as}/{url:.*}", "RFC 7089 TimeMap: the versions of a URL").Saying("Of more than 5,000 versions it is an index of TimeMaps at /timemap/{as}/{from}-{until}/{url}, timestamps of 14 digits.").
			Also(http.StatusOK, "application/link-format", "").Route,
		read[diffQuery, route.None](strings.TrimSuffix(api.PathDiff, "/"), "Leads to the comparison of two versions").Answering(http.StatusFound, "To /diff/{from}/{to}/{url}").Route,
		read[route.None, api.DiffDocument](api.PathDiff+"{from}/{to}/{url:.*}", "Two versions of a page compared").Answering(http.StatusOK, "For programs (Accept: application/json); people get a page").
			Also(http.StatusFound, "", "To versions that there are").Route,
		route.New[sourceQuery, route.None](http.MethodGet, api.PathReplay, route.Account, audit.None, "ReplayWeb.page at its own origin (setting replay.origin), where the operator has set it up (?source=/a/HOST.wacz)").
			Under("replay").Answering(http.StatusOK, "").Sends("text/html").Route,
	}
}

// Register mounts the handlers. It makes r pass on paths as they are, without cleaning.
func (p *Pages) Register(r *mux.Router, g *guard.Guard) {
	p.comparing = make(chan struct{}, runtime.GOMAXPROCS(0))
	r.SkipClean(true) // a URL in a path has slashes in a row, and dots that are not the path's own
	for prefix, h := range map[string]guard.Handler{
		replay.Root: p.web, api.PathTimeGate: p.timeGate, api.PathTimeMap: p.timeMap, api.PathDiff: p.diff,
	} {
		r.PathPrefix(prefix).Handler(g.Consumer(badAddress(h), account.ForQueries)).Methods(guard.Reading()...)
	}
	r.Handle(strings.TrimSuffix(api.PathDiff, "/"), g.Consumer(badAddress(p.diffForm), account.ForQueries)).Methods(guard.Reading()...)
}

// badAddress turns errors of replay's parsers into problems.
func badAddress(next guard.Handler) guard.Handler {
	return func(w http.ResponseWriter, r *http.Request, a *account.Account) error {
		err := next(w, r, a)
		switch {
		case errors.Is(err, replay.ErrTimestamp):
			return problem.New(http.StatusBadRequest, "timestamp", err.Error())
		case errors.Is(err, replay.ErrURL):
			return problem.New(http.StatusBadRequest, "url", err.Error())
		}
		return err
	}
}

// target returns what follows a prefix in a request's path, with the query: a URL in a path has its
// own slashes, escapes and question mark.
func target(r *http.Request, prefix string) string {
	rest := strings.TrimPrefix(r.URL.EscapedPath(), prefix)
	if r.URL.RawQuery != "" || r.URL.ForceQuery {
		rest += "?" + r.URL.RawQuery
	}
	return rest
}

// path is a capture's replay path.
func path(c *records.Capture) string { return replay.Path(c.Time, replay.Plain, c.URL) }

// web serves one version of a page or the list of its versions, or redirects to the version nearest
// to the period in the path.
func (p *Pages) web(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	if r.URL.EscapedPath() == replay.Root && (webpage.Wanted(r) || r.URL.Query().Has("url")) {
		return p.ask(w, r)
	}
	address, err := replay.ParseAddress(target(r, replay.Root), p.Site.Zone)
	if err != nil {
		return err
	}
	if address.Record != "" {
		return p.record(w, r, a, address)
	}
	all, err := p.mementos(w, r, a, address.URL)
	if all == nil {
		return err
	}
	i := all.at(address.Time, address.URL)
	switch {
	case address.All:
		return p.versions(w, r, all, address.URL)
	case address.Full && i >= 0 && replay.InPath(all[i].URL) == replay.InPath(address.URL):
		parts, err := p.join(r.Context(), a, all[i])
		if err != nil {
			return err
		}
		return p.memento(w, r, a, all, i, address.Mode, parts)
	case !address.Full || i < 0 || redirects(all[i]):
		left := maxLookedInto
		if i, err = all.choose(r.Context(), address.Period, &left); err != nil {
			return err
		}
	}
	if i < 0 {
		return p.missing(w, r, a, address.URL)
	}
	p.link(w, r, all, -1, address.URL)
	guard.Found(w, p.origin(r)+replay.Path(all[i].Time, address.Mode, all[i].URL))
	return nil
}

// record serves the record that an address names, even if it is no version of its page.
func (p *Pages) record(w http.ResponseWriter, r *http.Request, a *account.Account, address replay.Address) error {
	records, err := p.recordsOf(r.Context(), a, address.URL)
	if err != nil {
		return err
	}
	for _, c := range records {
		if atSecond(c, address.Time) && c.ID() == address.Record {
			all, i := versionsAmong(records).showing(c)
			return p.memento(w, r, a, all, i, address.Mode, nil)
		}
	}
	return p.missing(w, r, a, address.URL)
}

func (p *Pages) origin(r *http.Request) string { return guard.Origin(p.Public, r) }

// screen is what the templates of this package need.
type screen struct {
	webpage.Page
	URL      string // of the stored page
	Versions string // path of the list of its versions
	Watch    string // path of the form that watches the page, or has it saved; empty: there is none
}

func (p *Pages) screen(r *http.Request, url string) screen {
	s := screen{Page: p.Site.For(r), URL: url, Versions: replay.VersionsPath(url)}
	if p.Watching {
		s.Watch = watchPath(url)
	}
	return s
}

// watchPath is the path of the form that watches a page, or has it saved.
func watchPath(page string) string {
	return api.PathWatching + "?url=" + neturl.QueryEscape(page)
}

var askTemplate = webpage.ParseFiles(templates, "ask.html")

// ask asks for a page's URL, and leads to the list of its versions.
func (p *Pages) ask(w http.ResponseWriter, r *http.Request) error {
	url := strings.TrimSpace(r.URL.Query().Get("url"))
	if url == "" {
		return webpage.Show(w, r, http.StatusOK, askTemplate, p.Site.For(r))
	}
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	address, err := replay.ParseAddress("*/"+url, nil)
	if err != nil {
		return err
	}
	guard.Found(w, p.origin(r)+replay.VersionsPath(address.URL))
	return nil
}

// place is a link to the versions of a page.
type place struct{ URL, Path string }

var missingTemplate = webpage.ParseFiles(templates, "missing.html")

// missing says that nothing is kept of a page. To people it shows pages with similar URLs.
func (p *Pages) missing(w http.ResponseWriter, r *http.Request, a *account.Account, url string) error {
	if !webpage.Wanted(r) {
		return problem.New(http.StatusNotFound, "not_found", fmt.Sprintf("%.300s is not here, or not within this account's scope", url))
	}
	urls, err := p.Records.Suggest(r.Context(), a, url, 20)
	if err != nil {
		return err
	}
	var near []place
	for _, u := range urls {
		near = append(near, place{u, replay.VersionsPath(u)})
	}
	s := p.screen(r, url)
	if host, err := naming.HostOf(url); err != nil || !a.Covers(host) || !peer.IsPublicHost(host) {
		s.Watch = ""
	}
	return webpage.Show(w, r, http.StatusNotFound, missingTemplate, struct {
		screen
		Near []place
	}{s, near})
}
