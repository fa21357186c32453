package httpd

import (
	"net/http"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/library"
	"sheaf/serve/records"
	"sheaf/serve/results"
)

// inlinksQuery is the query of /v1/inlinks and of /v1/inlinks/hosts.
type inlinksQuery struct {
	URL    string `query:"url" doc:"a URL or host"`
	Match  string `query:"matchType" enum:"exact,prefix,host" doc:"how much url stands for"`
	Limit  int    `query:"limit" min:"1" max:"10000" default:"1000" doc:"links or hosts at most"`
	Cursor string `query:"cursor" doc:"where to go on: the answer before says it as next"`
}

// Operations that tell who links to a page or a host.
var (
	showInlinks     = read[inlinksQuery, api.InlinkList]("pages", api.PathInlinks, "Links to a page, by the latest versions of pages").Saying(ofCurrent).Also(http.StatusNotFound, route.Problem, "")
	showInlinkHosts = read[inlinksQuery, api.InlinkHostList]("pages", api.PathInlinkHosts, "Hosts with links to a host, by the latest versions of pages").Saying(ofCurrent).Also(http.StatusNotFound, route.Problem, "")
)

const ofCurrent = "Domains with volumes of the latest versions tell of their links. A cursor holds until newer ones are made."

// inlinks lists the links to a page, to pages with a prefix or to a host.
func (q *Queries) inlinks(w http.ResponseWriter, r *http.Request, a *account.Account, in *guard.Place) error {
	return q.findInlinks(w, r, a, in, api.TableOfInlinks, func(x *results.Inlinks) (any, string, error) {
		found, next, err := x.Pages(r.Context())
		return api.InlinkList{Links: append([]api.Inlink{}, found...), Next: next}, next, err
	})
}

// inlinkHosts lists the hosts that link to a host.
func (q *Queries) inlinkHosts(w http.ResponseWriter, r *http.Request, a *account.Account, in *guard.Place) error {
	return q.findInlinks(w, r, a, in, api.TableOfLinkHosts, func(x *results.Inlinks) (any, string, error) {
		x.Target.Match = library.MatchHost
		found, next, err := x.Hosts(r.Context())
		return api.InlinkHostList{Hosts: append([]api.InlinkHost{}, found...), Next: next}, next, err
	})
}

func (q *Queries) findInlinks(w http.ResponseWriter, r *http.Request, a *account.Account, in *guard.Place, table string, find func(*results.Inlinks) (found any, next string, err error)) error {
	page, err := route.Query[inlinksQuery](r.URL.Query())
	if err != nil {
		return problem.New(http.StatusBadRequest, "parameter", err.Error())
	}
	asked, err := readQuery(w, r, "limit", "cursor")
	if err != nil {
		return err
	}
	if len(asked.Search.Targets) != 1 || asked.Search.Targets[0].Match >= library.MatchDomain {
		return &records.ParamError{Name: "url", Value: page.URL, Why: "want one URL or host"}
	}
	tables, err := q.Library.Tree.LinkTables(r.Context(), table)
	if err != nil {
		return err
	}
	if len(tables) == 0 {
		return problem.New(http.StatusNotFound, "no_links", "the links of the latest versions are not known: the service has no volumes of them, or is making them")
	}
	begun := time.Now()
	found, next, err := find(&results.Inlinks{
		Archive: q.Library.Archive, Account: a, From: tables, Target: asked.Search.Targets[0], After: page.Cursor, Limit: page.Limit,
		Enough: func() bool { return q.Budget.Time > 0 && time.Since(begun) > q.Budget.Time },
	})
	if err != nil {
		return err
	}
	if next != "" {
		route.Link(r.Context(), "next", map[string]string{"cursor": next})
	}
	in.Leave() // sending is no search
	return q.sendJSON(w, r, a, found)
}
