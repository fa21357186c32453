package sites

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"
)

func pathEscape(name string) string { return (&url.URL{Path: name}).EscapedPath() }

// Handler serves the hosts of a web, by the Host header.
type Handler struct {
	web *Web
	day atomic.Int32
}

// NewHandler returns a handler that shows the first day.
func NewHandler(w *Web) *Handler {
	h := &Handler{web: w}
	h.day.Store(1)
	return h
}

// SetDay sets the day that h shows, counted from 1. It may be called while h serves.
func (h *Handler) SetDay(day int) { h.day.Store(int32(day)) }

// ServeHTTP answers like a file server.
func (h *Handler) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	day := int(h.day.Load())
	host, _, _ := strings.Cut(req.Host, ":")
	body, name, err := h.web.Body(day, host, req.URL.Path)
	if err != nil {
		if _, _, err := h.web.Body(day, host, req.URL.Path+"/"); err == nil {
			http.Redirect(rw, req, req.URL.EscapedPath()+"/", http.StatusMovedPermanently)
			return
		}
		http.NotFound(rw, req)
		return
	}
	rw.Header().Set("Content-Type", ContentType(name))
	rw.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(body))[:18]+`"`)
	http.ServeContent(rw, req, "", time.Time{}, strings.NewReader(string(body)))
}

// ContentType returns the Content-Type of a file. It names no charset, as servers of the time of
// these pages did not, so that a robot must detect it.
func ContentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html"
	case ".css":
		return "text/css"
	case ".xml":
		return "application/xml"
	case ".txt", ".jis", "":
		return "text/plain"
	}
	typ, _, _ := mime.ParseMediaType(mime.TypeByExtension(path.Ext(name)))
	return cmp.Or(typ, "application/octet-stream")
}
