package httpd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/api"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/library"
	"sheaf/serve/records"
	"sheaf/serve/results"
)

func (q *Queries) hosts(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	in, err := listHosts.Read(w, r)
	if err != nil {
		return err
	}
	hosts, next, err := q.Library.Tree.Hosts(r.Context(), a, in.Prefix, in.After, in.Limit)
	if err != nil {
		return err
	}
	list := api.HostList{Hosts: make([]api.HostLine, 0, len(hosts)), Next: next}
	for _, h := range hosts {
		list.Hosts = append(list.Hosts, api.HostLine{
			Host: h.Host, Path: api.PathTree + naming.HostPath(h.Host) + "/", Editions: h.Editions, Latest: h.Latest,
			Records: h.Records, Bytes: h.Bytes, First: h.First.UTC(), Last: h.Last.UTC(), Published: h.Published.UTC(),
		})
	}
	if next != "" {
		route.Link(r.Context(), "next", map[string]string{"after": next})
	}
	return q.sendJSON(w, r, a, list)
}

func (q *Queries) editions(ctx context.Context, _ route.None) (list api.EditionList, err error) {
	editions, err := q.Library.Tree.Editions(ctx)
	list.Editions = make([]api.Edition, 0, len(editions))
	for _, e := range editions {
		list.Editions = append(list.Editions, api.Edition(e))
	}
	return list, err
}

func (q *Queries) collections(ctx context.Context, _ route.None) (catalog.CollectionList, error) {
	list, err := q.Library.Tree.Collections(ctx, guard.Account(ctx))
	return catalog.CollectionList{Collections: list}, err
}

func (q *Queries) version(ctx context.Context, _ route.None) (api.VersionDocument, error) {
	n, err := q.Library.Tree.Version(ctx)
	return api.VersionDocument{Program: q.Program, Catalog: n}, err
}

// changes serves the change feed. A number that has not been assigned yet is answered 400, reason
// "future". A cursor of another feed is answered 410, reason "expired", with a Link rel="first" to
// the beginning.
func (q *Queries) changes(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	in, err := listChanges.Read(w, r)
	if err != nil {
		return err
	}
	if n := in.Selection.Len(); n > api.MaxSelected {
		return problem.New(http.StatusBadRequest, "selection", fmt.Sprintf("%d of surt, domain and host: give %d at most, and choose among the answer's events yourself", n, api.MaxSelected))
	}
	leave := func() {}
	if in.Wait > 0 {
		if leave, err = q.Limits.Polls.Enter(r, a); err != nil {
			return err
		}
		defer leave()
	}
	link := func(to api.Cursor, rel string) {
		route.Link(r.Context(), rel, map[string]string{"since": strconv.FormatInt(to.Since, 10), "mark": to.Mark})
	}
	at := api.Cursor{Since: in.Since, Mark: in.Mark}
	page, err := q.Library.Changes.Wait(r.Context(), a, in.Selection, at, in.Limit, time.Duration(in.Wait)*time.Second, q.Stopping)
	leave() // sending is no wait
	switch {
	case errors.Is(err, library.ErrFuture):
		return problem.New(http.StatusBadRequest, "future", fmt.Sprintf("nothing has the number %d yet; follow the answer's next, or begin at since=0", in.Since))
	case errors.Is(err, library.ErrOtherFeed):
		link(api.Cursor{}, "first")
		return problem.New(http.StatusGone, "expired",
			"the cursor is of another feed: the archive was put back to an older state, or this account may see other hosts than before; begin at since=0, and drop what is not told of again")
	case r.Context().Err() != nil:
		return nil // the client has gone
	case err != nil:
		return err
	}
	link(page.Next, "next")
	return q.sendJSON(w, r, a, page)
}

// coverage tells what was not collected, and why. Like /v1/cdx it takes url, matchType, from, to
// and a list in the body, and it takes limit and cursor.
func (q *Queries) coverage(w http.ResponseWriter, r *http.Request, a *account.Account, in *guard.Place) error {
	page, err := route.Query[postedCoverage](r.URL.Query())
	if err != nil {
		return problem.New(http.StatusBadRequest, "parameter", err.Error())
	}
	asked, err := readQuery(w, r, "limit", "cursor")
	if err != nil {
		return err
	}
	wanted := q.coverageOf(asked)
	wanted.Limit, wanted.After = page.Limit, page.Cursor
	found, next, err := library.FindCoverage(r.Context(), q.Library.Archive, a, wanted)
	if err != nil {
		return err
	}
	if next != "" {
		route.Link(r.Context(), "next", map[string]string{"cursor": next})
	}
	in.Leave() // sending is no search
	return q.sendJSON(w, r, a, api.CoverageList{Coverage: append([]api.Coverage{}, found...), Next: next})
}

// coverageOf returns the search for the coverage that a query asks for.
func (q *Queries) coverageOf(asked *records.Query) library.CoverageSearch {
	return library.CoverageSearch{Targets: asked.Search.Targets, From: asked.Search.From, To: asked.Search.To, Time: q.Budget.Time}
}

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
