package httpd

import (
	"context"
	"fmt"
	"net/http"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/problem"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/records"
	"sheaf/serve/results"
)

// pages serves the records that a query asks for as one file, which has a size and a strong ETag
// and takes Range. Records are not compressed anew. The file is what the query gives now, so its
// ETag changes with the archive. A query for too much is refused: it needs a job.
func (q *Queries) pages(w http.ResponseWriter, r *http.Request, a *account.Account, in *guard.Place) error {
	wanted, err := readQuery(w, r)
	if err != nil {
		return err
	}
	suffix := mux.Vars(r)["form"]
	gathered, err := q.Library.Bundles.GetOrBuild(r.Context(), a, suffix+" "+wanted.ID(), guard.InPlace(in, func(ctx context.Context) (*results.Bundle, error) {
		return q.gather(ctx, a, wanted, suffix)
	}))
	in.Leave() // sending is no search
	if err != nil {
		return err
	}
	name := api.PathPages + suffix
	f, err := q.Library.Bundles.Open(r.Context(), a, gathered, name)
	if err != nil {
		return err
	}
	defer f.Close()
	q.Sender.File(w, r, a, f, name, "pages"+suffix)
	return nil
}

// gather puts the records of a query together, within the budget of an answer.
func (q *Queries) gather(ctx context.Context, a *account.Account, wanted *records.Query, suffix string) (*results.Bundle, error) {
	to, err := q.Library.Bundles.New(ctx, a, suffix)
	if err != nil {
		return nil, err
	}
	asked := *wanted
	if wanted.Limit == 0 {
		asked.Limit = records.MaxLimit
	}
	n := 0
	next, err := results.Gather(ctx, &asked, q.Library.Records, a, to, suffix, q.Budget, func() { n++ })
	if err != nil {
		return nil, err
	}
	if next != nil && n != wanted.Limit {
		return nil, tooMuch(n)
	}
	return to.Finish(ctx)
}

// tooMuch returns the problem for a query that has found n records without coming to its end.
func tooMuch(n int) error {
	return problem.New(http.StatusUnprocessableEntity, "too_much",
		fmt.Sprintf("this is over %d records, or takes too long to find; POST the same query: it becomes a job, whose result can be fetched when it is done", n))
}
