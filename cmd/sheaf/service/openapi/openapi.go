// Package openapi describes the service's HTTP paths, in OpenAPI 3. The description follows from
// the definitions of the operations, and from the Go types that they take and answer. Tests hold it
// to the service: every route is described, nothing else is, and answers are as described.
package openapi

import (
	"bytes"
	_ "embed"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/mux"
	"go.yaml.in/yaml/v3"

	"sheaf/ingest"
	"sheaf/ingest/receive"
	"sheaf/ingest/upkeep"
	"sheaf/internal/api"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/transfers"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/serve/httpd/accounts"
	"sheaf/serve/httpd/queries"
	"sheaf/serve/httpd/watches"
	"sheaf/ui"
	"sheaf/ui/removal"
)

// frame has what stands in the description besides the operations.
//
//go:embed paths.yaml
var frame []byte

// variables says what variables of paths mean.
var variables = map[string]string{
	"robots/{name}": "of a robot", "operators/{name}": "of an operator", "accounts/{name}": "of an account",
	"tokens/{id}": "of a token", "access/{id}": "of a rule", "batches/{id}": "of a batch", "jobs/{id}": "of a job", "removals/{id}": "of a request", "watches/{id}": "of the watch",
	"handovers/{id}": "SHA-256 of the body, from the list",
	"{batch}":        "batch ID", "{counter}": "a release's number, or current", "{digest}": "SHA-256, hexadecimal", "{file}": "a file name",
	"{form}": ".tar.gz, .warc.gz or .members.tar.gz", "{host}": "authority without default port, such as www.waseda.ac.jp", "{robot}": "the robot's own name", "{token}": "that the mail has",
}

// All returns all operations that are defined. More are those of the service itself.
func All(more ...route.Route) []route.Route {
	return slices.Concat(queries.Routes(), watches.Routes(), accounts.Routes(), transfers.Routes(), operators.Routes(), manager.Routes(), receive.Routes(), ingest.Routes(), upkeep.Routes(), removal.Routes(), more)
}

// Document returns the whole description, as YAML. More are the operations of the service itself.
func Document(more ...route.Route) ([]byte, error) {
	var d route.Document
	if err := yaml.Unmarshal(frame, &d); err != nil {
		return nil, err
	}
	d.Add(variables, All(more...), wire.Problem{}, ui.Front{}, api.DiffDocument{})
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	err := e.Encode(d)
	return out.Bytes(), err
}

// Register mounts the description. Anybody may read it.
func Register(r *mux.Router, log *slog.Logger, more ...route.Route) {
	document := sync.OnceValues(func() ([]byte, error) { return Document(more...) })
	r.Handle(api.PathOpenAPI, problem.Handler(log, func(w http.ResponseWriter, r *http.Request) error {
		text, err := document()
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/yaml")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
		return nil
	})).Methods(http.MethodGet, http.MethodHead)
}
