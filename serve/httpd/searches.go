package httpd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"sync"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/library"
	"sheaf/serve/records"
	"sheaf/serve/results"
)

// pages serves the records that a query asks for as one file. Records are not compressed anew.
func (q *Queries) pages(w http.ResponseWriter, r *http.Request, a *account.Account, in *guard.Place) error {
	wanted, err := readQuery(w, r)
	if err != nil {
		return err
	}
	suffix := mux.Vars(r)["form"]
	return q.sendMade(w, r, a, in, suffix+" "+wanted.ID(), api.PathPages+suffix, "pages"+suffix, func(ctx context.Context) (results.File, error) {
		to, err := q.Library.Results.NewBundle(ctx, a, suffix)
		if err != nil {
			return nil, err
		}
		err = whole(wanted, func(asked *records.Query, found func()) (*records.Cursor, error) {
			return results.Gather(ctx, asked, q.Library.Records, a, to, suffix, q.Budget, found)
		})
		if err != nil {
			return nil, err
		}
		return to.Finish(ctx)
	})
}

// table serves a table of the records that a query asks for, or of their links.
func (q *Queries) table(w http.ResponseWriter, r *http.Request, a *account.Account, in *guard.Place) error {
	name := path.Base(r.URL.Path)
	wanted, err := readQuery(w, r)
	if err != nil {
		return err
	}
	return q.sendMade(w, r, a, in, name+" "+wanted.ID(), api.PathTables+name, name, func(ctx context.Context) (results.File, error) {
		return q.Library.Results.Make(ctx, a, name, results.OfIndex, func(to results.TableSink) error {
			return whole(wanted, func(asked *records.Query, found func()) (*records.Cursor, error) {
				return results.Tabulate(ctx, asked, q.Library.Records, a, to, q.Budget, found)
			})
		})
	})
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
	return q.sendMade(w, r, a, in, key, api.PathTables+api.TableOfHosts, api.TableOfHosts, func(ctx context.Context) (results.File, error) {
		return q.Library.Results.Hosts(ctx, a, func() ([]api.Coverage, error) {
			found, next, err := library.FindCoverage(ctx, q.Library.Archive, a, wanted)
			if err == nil && next != "" {
				err = problem.New(http.StatusUnprocessableEntity, "too_much",
					fmt.Sprintf("this is over %d hosts and batches, or takes too long to find; ask for fewer hosts, or for less time by from and to", len(found)))
			}
			return found, err
		})
	})
}

// sendMade serves what build makes of a query, as a file with a size, a strong ETag and ranges. The
// file is what the query gives now, so its ETag changes with the archive. The transfer is recorded
// under the file's name, and browsers save the file as download.
func (q *Queries) sendMade(w http.ResponseWriter, r *http.Request, a *account.Account, in *guard.Place, key, name, download string, build func(context.Context) (results.File, error)) error {
	made, err := q.Library.Results.GetOrBuild(r.Context(), a, key, guard.InPlace(in, build))
	in.Leave() // sending is no search
	if err != nil {
		return err
	}
	if _, onDisk := made.(*results.Table); onDisk && made.Size() > guard.SpoolMemory {
		leave, err := q.Limits.Answers.Enter(r, a)
		if err != nil {
			return err
		}
		defer leave()
	}
	f, err := q.Library.Results.Open(r.Context(), a, made, name)
	if err != nil {
		return err
	}
	defer f.Close()
	q.Sender.File(w, r, a, f, name, download)
	return nil
}

// whole runs a search for all records that a query asks for. It fails with a problem if these are
// too many for one answer, or take too long to find: such a query needs a job.
func whole(wanted *records.Query, search func(asked *records.Query, found func()) (*records.Cursor, error)) error {
	asked := *wanted
	if wanted.Limit == 0 {
		asked.Limit = records.MaxLimit
	}
	n := 0
	next, err := search(&asked, func() { n++ })
	if err == nil && next != nil && n != wanted.Limit {
		err = problem.New(http.StatusUnprocessableEntity, "too_much",
			fmt.Sprintf("this is over %d records, or takes too long to find; POST the same query: it becomes a job, whose result can be fetched when it is done", n))
	}
	return err
}

// defaultLines is the limit of /v1/cdx if none is given.
const defaultLines = 10_000

// flushAt is how many bytes of lines are gathered before they are compressed and spooled.
const flushAt = 64 << 10

// parts are empty buffers for lines.
var parts = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// cdx answers with index lines of the records that a query asks for (see package records). The body
// of a POST is a list of URLs and hosts, one a line. If lines may follow, the answer has a Link
// rel="next", even if it has fewer lines than the limit, or none.
func (q *Queries) cdx(w http.ResponseWriter, r *http.Request, a *account.Account, in *guard.Place) error {
	wanted, err := readQuery(w, r)
	if err != nil {
		return err
	}
	switch {
	case wanted.Limit > 0:
	case wanted.Paged():
		wanted.Limit = records.MaxLimit
	default:
		wanted.Limit = defaultLines
	}
	if wanted.CountsPages() {
		pages, err := wanted.Pages(r.Context(), q.Library.Records, a)
		if err != nil {
			return err
		}
		in.Leave() // sending is no search
		return sendPages(w, wanted, pages)
	}
	body := q.Limits.Spool(r, a, wanted.Gzip() && guard.TakesGzip(r))
	defer body.Close()
	next, err := q.lines(r, a, wanted, body)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Vary", "Accept-Encoding")
	if body.Compressed() {
		h.Set("Content-Encoding", "gzip")
	}
	if next != nil {
		// The cursor has what is left of the offset.
		route.Link(r.Context(), "next", map[string]string{"cursor": next.String(), "resumeKey": "", "offset": ""})
	}
	in.Leave()
	body.Send(w, r, wanted.Output.ContentType())
	return nil
}

// lines writes the lines of an answer to body. It returns the cursor of the next answer; nil at the
// end.
func (q *Queries) lines(r *http.Request, a *account.Account, wanted *records.Query, body *guard.Spool) (*records.Cursor, error) {
	part := parts.Get().(*bytes.Buffer)
	defer func() {
		if part.Cap() <= 2*flushAt {
			part.Reset()
			parts.Put(part)
		}
	}()
	flush := func() error {
		_, err := body.Write(part.Bytes())
		part.Reset()
		return err
	}
	out := records.NewIndexWriter(part, wanted)
	next, err := wanted.Run(r.Context(), q.Library.Records, a, q.Budget, func(c records.Record) error {
		if err := out.Add(r.Context(), c); err != nil || part.Len() < flushAt {
			return err
		}
		return flush()
	})
	if err != nil {
		return nil, err
	}
	out.Close(next)
	return next, errors.Join(flush(), body.Finish())
}

// sendPages answers with the number of pages: in JSON, like pywb, or as a bare number with
// output=text, like the Internet Archive.
func sendPages(w http.ResponseWriter, wanted *records.Query, pages records.Pages) error {
	if wanted.Output != records.Text {
		return problem.JSON(w, http.StatusOK, pages)
	}
	w.Header().Set("Content-Type", wanted.Output.ContentType())
	_, err := fmt.Fprintln(w, pages.Pages)
	return err
}
