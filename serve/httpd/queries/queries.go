// Package queries answers what programs ask about the archive:
//
//	/v1/hosts?prefix=&after=&limit=        the hosts of the account's scope
//	/v1/collections                         what was imported under names
//	/v1/editions, /v1/version              what was published
//	/v1/changes?since=&mark=&surt=&wait=   what was published and withdrawn, by sequence number
//	/v1/cdx?url=&from=&to=…                index lines of records (package query)
//	/v1/pages.<form>?url=&from=&to=…       the records themselves, as one file
//	/v1/tables/records.parquet?url=…       a table of records, in Parquet
//	/v1/tables/links.parquet?url=…         a table of the links of records
//	/v1/tables/hosts.parquet?url=…         a table of what was and was not collected, by host and batch
//	/v1/coverage?url=&from=&to=            what robots did not collect, and why
//	/v1/jobs                               queries that were POSTed to /v1/pages, worked on in the background
package queries

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/problem"
	"sheaf/serve"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/httpd/send"
	"sheaf/serve/jobs"
	"sheaf/serve/query"
	"sheaf/serve/records"
	"sheaf/serve/tables"
)

// Queries answers queries to a library.
type Queries struct {
	Library  *serve.Library
	Limits   *guard.Limits
	Sender   *send.Sender
	Budget   query.Budget    // of one answer
	Program  string          // version of the program
	Stopping <-chan struct{} // closed when the service begins to stop: answers what waits for changes
	Jobs     *jobs.Jobs      // nil: there are none
}

// archiveForm is how the path of gathered records ends.
const archiveForm = `{form:\.tar\.gz|\.warc\.gz|\.members\.tar\.gz}`

// Register mounts the handlers.
func (q *Queries) Register(r *mux.Router, g *guard.Guard) {
	for path, h := range map[string]guard.Handler{
		api.PathHosts: q.hosts, api.PathEditions: q.editions, api.PathVersion: q.version, api.PathImported: q.collections, api.PathChanges: q.changes,
	} {
		r.Handle(path, g.Consumer(h, account.ForFiles, account.ForQueries)).Methods(guard.Reading()...)
	}
	for path, h := range map[string]guard.Handler{
		api.PathCDX: q.cdx, api.PathCoverage: q.coverage, api.PathPages + archiveForm: q.pages,
		api.PathTables + tables.RecordsName: q.table, api.PathTables + tables.LinksName: q.table, api.PathTables + tables.HostsName: q.hostTable,
	} {
		r.Handle(path, g.Consumer(h, account.ForQueries)).Methods(guard.Reading()...)
	}
	r.Handle(api.PathCDX, g.Query(q.cdx, account.ForQueries)).Methods(http.MethodPost)
	r.Handle(api.PathCoverage, g.Query(q.coverage, account.ForQueries)).Methods(http.MethodPost)
	if q.Jobs != nil {
		(&jobsHandler{q.Jobs, q.Limits, q.Sender}).register(r, g)
	}
}

// refuse fails if the query has one of the parameters.
func refuse(values url.Values, why string, parameters ...string) error {
	for _, name := range parameters {
		if values.Has(name) {
			return &query.ParamError{Name: name, Value: values.Get(name), Why: why}
		}
	}
	return nil
}

// listTypes are the media types of a list of URLs and hosts. curl sends the last one if it is not
// told another.
var listTypes = []string{"text/plain", "text/uri-list", "application/octet-stream", "application/x-www-form-urlencoded"}

// readQuery reads the parameters of a request, and the list in the body of a POST.
func readQuery(w http.ResponseWriter, r *http.Request) (*query.Query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, problem.New(http.StatusBadRequest, "parameter", fmt.Sprintf("query %.200q: %v", r.URL.RawQuery, err))
	}
	var list []records.Target
	if r.Method == http.MethodPost {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && !slices.Contains(listTypes, kind) {
			return nil, problem.New(http.StatusUnsupportedMediaType, "media_type",
				fmt.Sprintf("a body of %s; send URLs and hosts, one a line, as text/plain", kind))
		}
		if list, err = query.ReadList(http.MaxBytesReader(w, r.Body, query.MaxListBytes)); err != nil {
			return nil, err
		}
	}
	return query.Parse(values, list)
}
