package httpd

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"

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
