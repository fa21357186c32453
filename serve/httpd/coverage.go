package httpd

import (
	"net/http"

	"sheaf/internal/api"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/library"
	"sheaf/serve/records"
)

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
