package webpage

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"time"

	"sheaf/internal/problem"

	"github.com/gorilla/mux"
)

//go:embed style.css
var styleSheet []byte

//go:embed favicon.svg
var favicon []byte

// stylePath is where the style sheet lies. It changes with its contents, so that browsers may keep
// it.
var stylePath = func() string {
	sum := sha256.Sum256(styleSheet)
	return "/static/" + hex.EncodeToString(sum[:8]) + ".css"
}()

// StyleSheet is where the style sheet lies, for templates.
func (Page) StyleSheet() string { return stylePath }

// Register mounts what the pages are shown with.
func Register(r *mux.Router) {
	r.HandleFunc(chooser.Path, choose).Methods(http.MethodGet)
	serve := func(path, kind, keep string, content []byte) {
		r.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if path == anyStyle && r.URL.Path != stylePath {
				problem.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Cache-Control", keep)
			w.Header().Set("X-Content-Type-Options", "nosniff")
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		}).Methods(http.MethodGet, http.MethodHead)
	}
	serve(style.Path, "text/css; charset=utf-8", "public, max-age=31536000, immutable", styleSheet)
	serve(icon.Path, "image/svg+xml", "public, max-age=86400", favicon)
	serve(oldIcon.Path, "image/svg+xml", "public, max-age=86400", favicon)
}

const anyStyle = "/static/{file}"
