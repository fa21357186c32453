package service

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
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/webpage"
	"sheaf/manager"
	"sheaf/serve"
	"sheaf/ui"
	"sheaf/ui/board"
	"sheaf/ui/login"
	"sheaf/ui/removal"
)

// The service's HTTP paths are described in OpenAPI 3. The description is made from the definitions
// of the operations, and from the Go types of their requests and answers. Tests compare it with the
// service: it has exactly the service's routes, and answers are as described.

// openapiFrame is the description without the operations.
//
//go:embed openapi.yaml
var openapiFrame []byte

// openapiVariables describes the variables in paths.
var openapiVariables = map[string]string{
	"robots/{name}": "of a robot", "operators/{name}": "of an operator", "accounts/{name}": "of an account",
	"tokens/{id}": "of a token", "access/{id}": "of a rule", "batches/{id}": "of a batch", "jobs/{id}": "of a job", "removals/{id}": "of a request", "watches/{id}": "of the watch",
	"handovers/{id}": "SHA-256 of the body, from the list",
	"{batch}":        "batch ID", "{counter}": "a release's number, or current", "{digest}": "SHA-256, hexadecimal", "{file}": "a file name",
	"{as}": "link or json", "{from}": "timestamp", "{to}": "timestamp", "{timestamp}": "14 digits or fewer, UTC, with a modifier such as id_ or txt_", "{url}": "a URL, as it is",
	"{lang}": "en or ja", "static/{file}": "the style sheet or the script that the pages name", "{path}": "a path of the tree, with slashes", "{place}": "a place of the tree, such as jp/ac/waseda/",
	"{secret}": "from the mail",
	"{form}":   ".tar.gz, .warc.gz or .members.tar.gz", "{host}": "authority without default port, such as www.waseda.ac.jp", "{robot}": "a robot's name; in its protocol the robot's own", "{token}": "that the mail has",
}

var openapiPath = route.New[route.None, route.None](http.MethodGet, api.PathOpenAPI, route.Anybody, audit.None, "This description").Answering(http.StatusOK, "").Sends("application/yaml")

// openapiRoutes returns the operations of all rooms, and those in more: the service's own.
func openapiRoutes(more []*route.Route) []*route.Route {
	return slices.Concat(
		ui.Routes(), login.Routes(), webpage.Routes(), serve.Routes(),
		manager.Routes(), board.PartnerRoutes(), ingest.Routes(), removal.Routes(), removal.VisitRoutes(),
		board.Routes(), board.TransferRoutes(), operators.Routes(), more, []*route.Route{openapiPath.Route})
}

// openapiDocument returns the whole description, as YAML. more are the service's own operations.
func openapiDocument(more ...*route.Route) ([]byte, error) {
	var d route.Document
	if err := yaml.Unmarshal(openapiFrame, &d); err != nil {
		return nil, err
	}
	d.Add(openapiVariables, openapiRoutes(more))
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	err := e.Encode(d)
	return out.Bytes(), err
}

// registerOpenapi mounts the description. Anybody may read it.
func registerOpenapi(r *mux.Router, log *slog.Logger, more ...*route.Route) {
	document := sync.OnceValues(func() ([]byte, error) { return openapiDocument(more...) })
	r.Handle(openapiPath.Path, problem.Handler(log, func(w http.ResponseWriter, r *http.Request) error {
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
