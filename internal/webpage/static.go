package webpage

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/gorilla/mux"
)

//go:embed style.css
var styleSheet []byte

//go:embed favicon.svg
var favicon []byte

// StylePath is where the style sheet lies. It changes with its contents, so that browsers may keep it.
var StylePath = "/static/" + digestOf(styleSheet) + ".css"

const faviconPath = "/favicon.svg"

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8])
}

// StyleSheet is where the style sheet lies, for templates.
func (Page) StyleSheet() string { return StylePath }

// Register mounts what the pages are shown with.
func Register(r *mux.Router) {
	for path, file := range map[string]struct {
		kind, keep string
		content    []byte
	}{
		StylePath:      {"text/css; charset=utf-8", "public, max-age=31536000, immutable", styleSheet},
		faviconPath:    {"image/svg+xml", "public, max-age=86400", favicon},
		"/favicon.ico": {"image/svg+xml", "public, max-age=86400", favicon},
	} {
		r.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", file.kind)
			w.Header().Set("Cache-Control", file.keep)
			w.Header().Set("X-Content-Type-Options", "nosniff")
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file.content))
		}).Methods(http.MethodGet, http.MethodHead)
	}
}
