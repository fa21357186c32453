package httpd

import (
	"fmt"
	"net/http"
	"net/url"

	"sheaf/serve"
	"sheaf/serve/account"
	"sheaf/serve/query"
)

// maxCoverage and defaultCoverage bound the lines of an answer of /v1/coverage.
const maxCoverage, defaultCoverage = 10_000, 1000

// notOfCoverage are the parameters of queries that say nothing of coverage.
var notOfCoverage = []string{"filter", "collapse", "latest", "closest", "sort", "output", "fl", "fields", "resumeKey", "showResumeKey", "originals"}

// CoverageList is the answer of GET /v1/coverage. Next, where there is more, is the
// query's next cursor; the Link header has the whole URL.
type CoverageList struct {
	Coverage []serve.Coverage `json:"coverage"`
	Next     string           `json:"next,omitempty"`
}

// coverage serves GET and POST /v1/coverage: what was not collected, and why. It takes
// url, matchType, from and to as /v1/cdx does, a limit, a cursor, and a body's list.
func (s *server) coverage(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	values := r.URL.Query()
	for _, name := range notOfCoverage {
		if values.Has(name) {
			return &query.ParamError{Name: name, Value: values.Get(name), Why: "says nothing of coverage"}
		}
	}
	cursor := values.Get("cursor")
	values.Del("cursor")
	asked := *r
	asked.URL = &url.URL{Path: r.URL.Path, RawQuery: values.Encode()}
	leave, err := s.enterSearch(r, a)
	if err != nil {
		return err
	}
	defer leave()
	q, err := readQuery(w, &asked)
	if err != nil {
		return err
	}
	switch {
	case q.Limit == 0:
		q.Limit = defaultCoverage
	case q.Limit > maxCoverage || values.Get("limit")[0] == '-':
		return &query.ParamError{Name: "limit", Value: values.Get("limit"), Why: fmt.Sprintf("want a number from 1 to %d", maxCoverage)}
	}
	found, next, err := s.Library.Coverage(r.Context(), a, serve.CoverageSearch{
		Targets: q.Search.Targets, From: q.Search.From, To: q.Search.To, After: cursor, Limit: q.Limit, Time: s.Budget.Time,
	})
	if err != nil {
		return err
	}
	if next != "" {
		values.Set("cursor", next)
		more := url.URL{Path: r.URL.Path, RawQuery: values.Encode()}
		w.Header().Set("Link", fmt.Sprintf(`<%s>; rel="next"`, more.String()))
	}
	return answerJSON(w, http.StatusOK, CoverageList{Coverage: append([]serve.Coverage{}, found...), Next: next})
}
