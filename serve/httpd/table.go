package httpd

import (
	"context"
	"fmt"
	"net/http"
	"path"

	"sheaf/internal/api"
	"sheaf/internal/problem"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/library"
	"sheaf/serve/records"
	"sheaf/serve/results"
)

// table serves a table of the records that a query asks for, or of their links, as a file with a
// size, a strong ETag and ranges. A query for too much is refused: it needs a job.
func (q *Queries) table(w http.ResponseWriter, r *http.Request, a *account.Account, in *guard.Place) error {
	name := path.Base(r.URL.Path)
	wanted, err := readQuery(w, r)
	if err != nil {
		return err
	}
	table, err := q.Library.Tables.GetOrBuild(r.Context(), a, name+" "+wanted.ID(), guard.InPlace(in, func(ctx context.Context) (*results.Table, error) {
		return q.tabulate(ctx, a, name, wanted)
	}))
	in.Leave() // sending is no search
	if err != nil {
		return err
	}
	return q.sendTable(w, r, a, table, name)
}

func (q *Queries) sendTable(w http.ResponseWriter, r *http.Request, a *account.Account, table *results.Table, name string) error {
	if table.Size() > guard.SpoolMemory {
		leave, err := q.Limits.Answers.Enter(r, a)
		if err != nil {
			return err
		}
		defer leave()
	}
	f, err := q.Library.Tables.Open(r.Context(), a, table, api.PathTables+name)
	if err != nil {
		return err
	}
	defer f.Close()
	q.Sender.File(w, r, a, f, api.PathTables+name, name)
	return nil
}

// hostTable serves a table of coverage. It takes the parameters of /v1/coverage except limit and
// cursor, since a table is whole or refused.
func (q *Queries) hostTable(w http.ResponseWriter, r *http.Request, a *account.Account, in *guard.Place) error {
	asked, err := readQuery(w, r)
	if err != nil {
		return err
	}
	wanted := q.coverageOf(asked)
	wanted.Limit = records.MaxLimit
	key := fmt.Sprintf("%s %v %d %d", api.TableOfHosts, wanted.Targets, wanted.From.UnixNano(), wanted.To.UnixNano())
	table, err := q.Library.Tables.GetOrBuild(r.Context(), a, key, guard.InPlace(in, func(ctx context.Context) (*results.Table, error) {
		return q.Library.Tables.Hosts(ctx, a, func() ([]api.Coverage, error) {
			found, next, err := library.FindCoverage(ctx, q.Library.Archive, a, wanted)
			if err == nil && next != "" {
				err = problem.New(http.StatusUnprocessableEntity, "too_much",
					fmt.Sprintf("this is over %d hosts and batches, or takes too long to find; ask for fewer hosts, or for less time by from and to", len(found)))
			}
			return found, err
		})
	}))
	in.Leave() // sending is no search
	if err != nil {
		return err
	}
	return q.sendTable(w, r, a, table, api.TableOfHosts)
}

// tabulate makes a table of what a query finds, within the budget of an answer.
func (q *Queries) tabulate(ctx context.Context, a *account.Account, name string, wanted *records.Query) (*results.Table, error) {
	asked := *wanted
	if wanted.Limit == 0 {
		asked.Limit = records.MaxLimit
	}
	return q.Library.Tables.Make(ctx, a, name, results.OfIndex, func(to results.TableSink) error {
		n := 0
		next, err := results.Tabulate(ctx, &asked, q.Library.Records, a, to, q.Budget, func() { n++ })
		if err == nil && next != nil && n != wanted.Limit {
			err = tooMuch(n)
		}
		return err
	})
}
