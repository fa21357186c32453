package httpd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"

	"github.com/gorilla/mux"

	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/library"
	"sheaf/serve/reading"
	"sheaf/serve/records"
	"sheaf/serve/results"
)

// Queries serves a library's records, hosts, changes and coverage to programs.
type Queries struct {
	Library  *reading.Library
	Limits   *guard.Limits
	Sender   *guard.Sender
	Budget   records.Budget  // of one answer
	Program  string          // version of the program
	Stopping <-chan struct{} // closed when the service begins to stop: requests that wait for changes are then answered
	Jobs     *results.Jobs   // nil: no jobs
}

// listTypes are the media types of a list of URLs and hosts. The last one is curl's default.
var listTypes = []string{"text/plain", "text/uri-list", "application/octet-stream", "application/x-www-form-urlencoded"}

// readQuery reads the parameters of a request, and the list in the body of a POST. It refuses a
// parameter that the operation does not have. It does not parse the parameters in besides.
func readQuery(w http.ResponseWriter, r *http.Request, besides ...string) (*records.Query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, problem.New(http.StatusBadRequest, "parameter", fmt.Sprintf("query %.200q: %v", r.URL.RawQuery, err))
	}
	if err := records.OnlyParameters(values, route.Parameters(r.Context())); err != nil {
		return nil, err
	}
	for _, name := range besides {
		values.Del(name)
	}
	var list []library.Target
	if r.Method == http.MethodPost {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && !slices.Contains(listTypes, kind) {
			return nil, problem.New(http.StatusUnsupportedMediaType, "media_type",
				fmt.Sprintf("a body of %s; send URLs and hosts, one a line, as text/plain", kind))
		}
		if list, err = records.ReadTargets(http.MaxBytesReader(w, r.Body, records.MaxTargetBytes)); err != nil {
			return nil, err
		}
	}
	return records.ParseQuery(values, list)
}

// sendJSON answers with v in JSON. A long text is not held in memory while it is sent.
func (q *Queries) sendJSON(w http.ResponseWriter, r *http.Request, a *account.Account, v any) error {
	body := q.Limits.Spool(r, a, false)
	defer body.Close()
	if err := json.NewEncoder(body).Encode(v); err != nil {
		return err
	}
	body.Send(w, r, "application/json")
	return nil
}

// search returns the handler of an operation that searches. It receives a request's body, and
// counts the request as a search until h returns or leaves its place. It fails with the problem to
// answer.
func (q *Queries) search(h func(w http.ResponseWriter, r *http.Request, a *account.Account, in *guard.Place) error) route.Handler {
	return guard.Raw(func(w http.ResponseWriter, r *http.Request, a *account.Account) error {
		release, err := receive(q.Limits, w, r, a)
		if err != nil {
			return err
		}
		out, err := q.Limits.Search(r, a)
		if err != nil {
			release()
			return err
		}
		in := guard.NewPlace(func() { out(); release() })
		defer in.Leave()
		return h(w, r, a, in)
	})
}

// receive reads the body of a request, which may be a list, before the request gets a place. So a
// slow client keeps no place. A body longer than guard.SpoolMemory goes to a file, and counts in
// Limits.Bodies while it comes. The body can be read again until release is called.
func receive(limits *guard.Limits, w http.ResponseWriter, r *http.Request, a *account.Account) (release func(), err error) {
	if r.Method != http.MethodPost {
		return func() {}, nil
	}
	from, body := http.MaxBytesReader(w, r.Body, records.MaxTargetBytes), guard.NewSpool(false, nil)
	release = func() { body.Close() }
	defer func() {
		if err == nil {
			return
		}
		body.Close()
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = &records.ParamError{Name: "list", Why: "the body breaks off"}
		}
	}()
	if _, err := io.CopyN(body, from, guard.SpoolMemory); err == nil { // there may be more
		leave, err := limits.Bodies.Enter(r, a)
		if err != nil {
			return nil, err
		}
		defer leave()
		if _, err := io.Copy(body, from); err != nil {
			return nil, err
		}
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	r.Body = io.NopCloser(body.Content())
	return release, nil
}

// hostsQuery is the query of GET /v1/hosts.
type hostsQuery struct {
	Prefix string `query:"prefix" doc:"only hosts whose key begins so, such as jp,ac,"`
	After  string `query:"after" doc:"where to go on: the answer before says it as next"`
	Limit  int    `query:"limit" min:"1" max:"10000" default:"1000" doc:"hosts at most"`
}

// coverageQuery is the query of /v1/coverage.
type coverageQuery struct {
	URL string `query:"url" doc:"a URL, host or domain"`
	postedCoverage
}

// postedCoverage is the query of POST /v1/coverage.
type postedCoverage struct {
	records.Match
	Limit  int    `query:"limit" min:"1" max:"10000" default:"1000" doc:"lines at most"`
	Cursor string `query:"cursor" doc:"where to go on: the answer before says it as next"`
}

// Queries for index lines, tables and files of pages.
type (
	linesQuery struct {
		records.Targets
		records.Choice
		records.Lines
		records.Paging
	}
	postedLines struct {
		records.Match
		records.Choice
		records.Lines
	}
	tableQuery struct {
		records.Targets
		records.Choice
	}
	pagesQuery struct {
		Form string `path:"form" enum:".tar.gz,.warc.gz,.members.tar.gz"`
		records.Targets
		records.Choice
		records.Files
	}
	resultOf struct {
		ID   string `path:"id"`
		Form string `path:"form" enum:".tar.gz,.warc.gz,.members.tar.gz"`
	}
)

const (
	// archiveForm matches the suffixes of files of gathered records.
	archiveForm = `{form:\.tar\.gz|\.warc\.gz|\.members\.tar\.gz}`
	oneJob      = api.PathJobs + "/{id}"

	listed  = "The body has URLs and hosts, one a line."
	tooBig  = "What is too much, or takes too long, is answered 422: POST the same query, and it becomes a job."
	tooLong = "What is too much, or takes too long, is answered 422: ask for fewer hosts or less time."
)

// read defines an operation that changes nothing.
func read[In, Out any](tag, path, summary string) route.Op[In, Out] {
	return route.New[In, Out](http.MethodGet, path, route.Account, audit.None, summary).Under(tag)
}

// file defines an operation that answers with a file.
func file[In any](path, media, summary, long string) route.Op[In, route.None] {
	return read[In, route.None]("pages", path, summary).Saying(long).Answering(http.StatusOK, "").Sends(media).
		Also(http.StatusPartialContent, "", "").Also(http.StatusNotModified, "", "")
}

// list defines an operation of POST that takes a list of URLs and hosts.
func list[In, Out any](path, summary string) route.Op[In, Out] {
	return route.New[In, Out](http.MethodPost, path, route.Account, audit.None, summary).Under("pages").Takes("text/plain").Optional().Saying(listed)
}

// job defines an operation that begins a job.
func job[In any](path, summary string) route.Op[In, api.JobStatus] {
	return list[In, api.JobStatus](path, summary).Answering(http.StatusAccepted, "")
}

// Operations that answer with JSON.
var (
	listHosts       = read[hostsQuery, api.HostList]("changes", api.PathHosts, "The hosts of the account's scope, in the order of the tree")
	listEditions    = read[route.None, api.EditionList]("changes", api.PathEditions, "What was published, oldest first")
	listCollections = read[route.None, catalog.CollectionList]("changes", api.PathImported, "What was imported as collections, with what the account sees of them")
	showVersion     = read[route.None, api.VersionDocument]("changes", api.PathVersion, "The program and the newest catalog version")
	listChanges     = read[api.ChangesQuery, api.Page]("changes", api.PathChanges, "What was published, taken down, lifted or has expired, behind a number").
			Saying("Numbers are given once, in the order of publication; an account sees those of its scope. Begin at 0, then ask with what next says. 400 with reason future is a number that nothing has yet.").
			Also(http.StatusBadRequest, route.Problem, "").Also(http.StatusGone, route.Expired, "")
	showCoverage  = read[coverageQuery, api.CoverageList]("pages", api.PathCoverage, "What was not collected, and why")
	queryCoverage = list[postedCoverage, api.CoverageList](api.PathCoverage, "The same, of many URLs and hosts at once")
	listJobs      = read[route.None, api.JobList]("pages", api.PathJobs, "The account's jobs, oldest first")
	showJob       = read[string, api.JobStatus]("pages", oneJob, "How far a job is")
	forgetJob     = route.New[string, route.None](http.MethodDelete, oneJob, route.Account, audit.None, "Forget a job and its result").Under("pages")
)

// Operations that answer with lines and files, and those that begin jobs.
var (
	lines = []string{"text/plain", "text/x-cdxj", "application/json", "application/x-ndjson", "text/x-ndjson"}

	showLines  = read[linesQuery, route.None]("pages", api.PathCDX, "Index lines of the records that a query asks for").Answering(http.StatusOK, "").Sends(lines...).Also(http.StatusPartialContent, "", "").Also(http.StatusNotModified, "", "").Also(http.StatusGone, route.Expired, "")
	queryLines = list[postedLines, route.None](api.PathCDX, "The same, of many URLs and hosts at once").Answering(http.StatusOK, "").Sends(lines...).Also(http.StatusGone, route.Expired, "")

	gatherPages = file[pagesQuery](api.PathPages+archiveForm, "application/gzip", "The records that a query asks for, as one file", tooBig).Also(http.StatusUnprocessableEntity, route.Problem, "")
	makeRecords = file[tableQuery](api.PathTables+api.TableOfRecords, api.Parquet, "A table of the records that a query asks for, in Parquet", tooBig).Also(http.StatusUnprocessableEntity, route.Problem, "")
	makeLinks   = file[tableQuery](api.PathTables+api.TableOfLinks, api.Parquet, "A table of the links of the records that a query asks for, in Parquet", tooBig).Also(http.StatusUnprocessableEntity, route.Problem, "")
	makeHosts   = file[records.Targets](api.PathTables+api.TableOfHosts, api.Parquet, "A table of what was and was not collected, by host and batch, in Parquet", tooLong).Also(http.StatusUnprocessableEntity, route.Problem, "")

	pagesJob   = job[pagesQuery](api.PathPages+archiveForm, "A job that gathers the records")
	recordsJob = job[tableQuery](api.PathTables+api.TableOfRecords, "A job that makes the table")
	linksJob   = job[tableQuery](api.PathTables+api.TableOfLinks, "A job that makes the table")

	pagesResult   = file[resultOf](oneJob+"/"+resultName+archiveForm, "application/gzip", "What a job has gathered", "").Also(http.StatusConflict, route.Problem, "")
	recordsResult = result(api.TableOfRecords)
	linksResult   = result(api.TableOfLinks)
)

func result(name string) route.Op[string, route.None] {
	return file[string](oneJob+"/"+name, api.Parquet, "The table that a job has made", "").Also(http.StatusTemporaryRedirect, "", guard.Elsewhere).
		Also(http.StatusConflict, route.Problem, "").Also(http.StatusGone, route.Problem, "")
}

// Register mounts the operations. Those on jobs need Jobs.
func (q *Queries) Register(r *mux.Router, g *guard.Guard) {
	asked := g.Consumers(r, g.For(account.ForQueries), nil)
	q.register(g.Consumers(r, g.For(account.ForFiles, account.ForQueries), nil), asked, g.Consumers(r, func(h guard.Handler) http.Handler {
		return g.Query(h, account.ForQueries)
	}, nil))
	if q.Jobs != nil {
		(&jobsHandler{q.Jobs, q.Limits, q.Sender}).register(g.Consumers(r, g.For(account.ForQueries), jobProblem))
	}
}

// register mounts each kind of operation: lists, queries, and queries with a body.
func (q *Queries) register(lists, asked, posted route.Mount) {
	listHosts.Raw(lists, guard.Raw(q.hosts))
	listEditions.On(lists, q.editions)
	listCollections.On(lists, q.collections)
	showVersion.On(lists, q.version)
	listChanges.Raw(lists, guard.Raw(q.changes))
	showLines.Raw(asked, q.search(q.cdx))
	showCoverage.Raw(asked, q.search(q.coverage))
	showInlinks.Raw(asked, q.search(q.inlinks))
	showInlinkHosts.Raw(asked, q.search(q.inlinkHosts))
	gatherPages.Raw(asked, q.search(q.pages))
	makeRecords.Raw(asked, q.search(q.table))
	makeLinks.Raw(asked, q.search(q.table))
	makeHosts.Raw(asked, q.search(q.hostTable))
	queryLines.Raw(posted, q.search(q.cdx))
	queryCoverage.Raw(posted, q.search(q.coverage))
}

func (j *jobsHandler) register(mount route.Mount) {
	pagesJob.Raw(mount, guard.Raw(j.create))
	recordsJob.Raw(mount, guard.Raw(j.create))
	linksJob.Raw(mount, guard.Raw(j.create))
	recordsResult.Raw(mount, guard.Raw(j.result))
	linksResult.Raw(mount, guard.Raw(j.result))
	pagesResult.Raw(mount, guard.Raw(j.result))
	listJobs.On(mount, j.list)
	showJob.On(mount, j.status)
	forgetJob.On(mount, route.Done(j.delete))
}
