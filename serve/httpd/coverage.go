package httpd

import (
	"fmt"
	"net/http"
	"net/url"

	"sheaf/internal/api"
	"sheaf/serve/account"
	"sheaf/serve/coverage"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/query"
)

// maxCoverage and defaultCoverage bound the lines of one answer.
const maxCoverage, defaultCoverage = 10_000, 1000

// coverage tells what was not collected, and why. It takes url, matchType, from, to and a body's
// list as /v1/cdx does, a limit and a cursor.
func (q *Queries) coverage(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	values := r.URL.Query()
	in, err := q.enter(w, r, a)
	if err != nil {
		return err
	}
	defer in.Leave()
	wanted, err := q.readCoverage(w, r, defaultCoverage, maxCoverage)
	if err != nil {
		return err
	}
	found, next, err := q.Library.Coverage(r.Context(), a, wanted)
	if err != nil {
		return err
	}
	if next != "" {
		values.Set("cursor", next)
		guard.Link(w, r, values, "next")
	}
	list := api.CoverageList{Coverage: make([]api.Coverage, 0, len(found)), Next: next}
	for _, c := range found {
		list.Coverage = append(list.Coverage, api.Coverage(c))
	}
	in.Leave() // sending is no search
	return q.sendJSON(w, r, a, list)
}

// readCoverage reads what coverage is wanted, with a limit.
func (q *Queries) readCoverage(w http.ResponseWriter, r *http.Request, usual, most int) (s coverage.Search, err error) {
	values := r.URL.Query()
	if err := refuse(values, "says nothing of coverage", "edition", "collection", "modified", "filter", "collapse", "latest", "closest", "sort", "output",
		"fl", "fields", "resumeKey", "showResumeKey", "originals"); err != nil {
		return s, err
	}
	cursor := values.Get("cursor")
	values.Del("cursor")
	asked := *r
	asked.URL = &url.URL{Path: r.URL.Path, RawQuery: values.Encode()}
	wanted, err := readQuery(w, &asked)
	if err != nil {
		return s, err
	}
	switch {
	case wanted.Limit == 0:
		wanted.Limit = usual
	case wanted.Limit > most || values.Get("limit")[0] == '-':
		return s, &query.ParamError{Name: "limit", Value: values.Get("limit"), Why: fmt.Sprintf("want a number from 1 to %d", most)}
	}
	return coverage.Search{
		Targets: wanted.Search.Targets, From: wanted.Search.From, To: wanted.Search.To, After: cursor, Limit: wanted.Limit, Time: q.Budget.Time,
	}, nil
}
