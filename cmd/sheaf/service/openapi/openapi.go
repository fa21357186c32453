// Package openapi holds the description of the service's HTTP paths, in OpenAPI 3.
// The paths are written by hand, in paths.yaml; the schemas of JSON bodies follow
// from the Go types that are encoded, in schemas.yaml. Tests hold both to the
// service: every route is described, nothing else is, and answers are as described.
package openapi

import (
	_ "embed"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
)

//go:embed paths.yaml
var paths []byte

// schemas go on where paths end: in components.
//
//go:embed schemas.yaml
var schemas []byte

// Document gives the whole description, as YAML.
func Document() []byte { return slices.Concat(paths, schemas) }

// Register mounts the description. Anybody may read it.
func Register(r *mux.Router) {
	r.HandleFunc(api.PathOpenAPI, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(Document())))
	}).Methods(http.MethodGet, http.MethodHead)
}
