package httpd

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/gorilla/mux"

	"sheaf/internal/problem"
	"sheaf/serve"
	"sheaf/serve/account"
	"sheaf/serve/query"
)

// PathPages is where records are gathered; a form follows, such as ".warc.gz".
const PathPages = "/v1/pages"

// archiveForm is what a path of PathPages or of a job's result ends with.
const archiveForm = `{form:\.tar\.gz|\.warc\.gz|\.members\.tar\.gz}`

// lineParameters say how lines of an index look, and nothing about which records are wanted.
var lineParameters = []string{"output", "fl", "fields", "showResumeKey", "resolveRevisits", "showDupeCount", "showSkipCount", "lastSkipTimestamp", "gzip", "page", "pageSize", "showNumPages"}

// pages serves GET /v1/pages<form>: the records that a query asks for, as one file
// that is never compressed anew, with its size, a strong ETag and Range. The file is
// what the query gives now: the ETag changes with it. What takes too long, or is too
// much, is a job's (see postPages).
func (s *server) pages(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	leave, err := s.enterSearch(r, a)
	if err != nil {
		return err
	}
	leave = sync.OnceFunc(leave)
	defer leave()
	q, err := readPagesQuery(w, r)
	if err != nil {
		return err
	}
	suffix := mux.Vars(r)["form"]
	g, err := s.Library.Gathered(r.Context(), a, suffix+" "+q.ID(), func(ctx context.Context) (*serve.Gathering, error) {
		return s.gather(ctx, a, q, suffix)
	})
	leave() // sending is no search
	if err != nil {
		return err
	}
	name := PathPages + suffix
	f, err := s.Library.OpenGathering(r.Context(), a, g, name)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.sendFile(w, r, a, f, name, "pages"+suffix)
}

// gather puts together what a query asks for, within the budget of an answer.
func (s *server) gather(ctx context.Context, a *account.Account, q *query.Query, suffix string) (*serve.Gathering, error) {
	to, err := s.Library.Gather(a, suffix)
	if err != nil {
		return nil, err
	}
	asked := *q
	if q.Limit == 0 {
		asked.Limit = query.MaxLimit
	}
	n := 0
	next, err := asked.Gather(ctx, s.Library, a, to, suffix, s.Budget, func() { n++ })
	if err != nil {
		return nil, err
	}
	if next != nil && n != q.Limit {
		return nil, problem.New(http.StatusUnprocessableEntity, "too_much",
			fmt.Sprintf("this is over %d records, or takes too long to find; POST the same query: it becomes a job, whose result can be fetched when it is done", n))
	}
	return to.Finish(ctx)
}

// readPagesQuery reads a query for records themselves.
func readPagesQuery(w http.ResponseWriter, r *http.Request) (*query.Query, error) {
	if err := noLineParameters(r.URL.Query()); err != nil {
		return nil, err
	}
	return readQuery(w, r)
}

func noLineParameters(values url.Values) error {
	for _, name := range lineParameters {
		if values.Has(name) {
			return &query.ParamError{Name: name, Value: values.Get(name), Why: "is for index lines; here it says nothing"}
		}
	}
	return nil
}
