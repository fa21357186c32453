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

//go:embed page.js
var script []byte

//go:embed favicon.svg
var favicon []byte

// The paths of the style sheet and of the script. They change with the contents, so that browsers
// may cache the files.
var stylePath, scriptPath = staticPath(styleSheet, ".css"), staticPath(script, ".js")

func staticPath(content []byte, ending string) string {
	sum := sha256.Sum256(content)
	return "/static/" + hex.EncodeToString(sum[:8]) + ending
}

// StyleSheet returns the path of the style sheet, for templates.
func (Page) StyleSheet() string { return stylePath }

// Script returns the path of the script, for templates.
func (Page) Script() string { return scriptPath }

// kept is a file that browsers may cache.
type kept struct {
	kind, keep string
	content    []byte
}

// files has the cacheable files by path.
var files = map[string]kept{
	stylePath:    {"text/css; charset=utf-8", "public, max-age=31536000, immutable", styleSheet},
	scriptPath:   {"text/javascript; charset=utf-8", "public, max-age=31536000, immutable", script},
	icon.Path:    {"image/svg+xml", "public, max-age=86400", favicon},
	oldIcon.Path: {"image/svg+xml", "public, max-age=86400", favicon},
}

// Register mounts the style sheet, the script and the icons of the pages, and the choice of their
// language.
func Register(r *mux.Router) {
	r.HandleFunc(chooser.Path, choose).Methods(http.MethodGet)
	for _, path := range []string{static.Path, icon.Path, oldIcon.Path} {
		r.HandleFunc(path, serveFile).Methods(http.MethodGet, http.MethodHead)
	}
}

func serveFile(w http.ResponseWriter, r *http.Request) {
	file, ok := files[r.URL.Path]
	if !ok {
		problem.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", file.kind)
	w.Header().Set("Cache-Control", file.keep)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file.content))
}
