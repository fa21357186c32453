package httpd

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"

	"sheaf/internal/problem"
	"sheaf/internal/wire"
)

// SameOrigin refuses, with 403, requests that a browser sends for a page of another site and that
// could change something: it adds the name and password that its user has typed into this one.
// Public is the service's own URL where a proxy speaks for it; it may be empty.
func SameOrigin(public string) func(http.Handler) http.Handler {
	check := http.NewCrossOriginProtection()
	if u, err := url.Parse(public); err == nil && u.Scheme != "" && u.Host != "" {
		check.AddTrustedOrigin(u.Scheme + "://" + u.Host) // what it wants has just been checked
	}
	check.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		problem.Write(w, wire.Problem{Status: http.StatusForbidden, Reason: "cross_origin",
			Detail: fmt.Sprintf("%s from a page of another site (Origin %.200q) is refused; programs send no Origin", r.Method, r.Header.Get("Origin"))})
	}))
	return check.Handler
}

// readJSON reads a request's body, which is at most so many bytes of JSON. What says that it is of
// another type is refused unread.
func readJSON(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	if given := r.Header.Get("Content-Type"); given != "" {
		if kind, _, err := mime.ParseMediaType(given); err != nil || kind != "application/json" {
			return problem.New(http.StatusUnsupportedMediaType, "media_type", fmt.Sprintf("a body of %.100q; send JSON, as application/json", given))
		}
	}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit))
	body.DisallowUnknownFields()
	if err := body.Decode(v); err != nil {
		return err
	}
	if _, err := body.Token(); err != io.EOF {
		return fmt.Errorf("something stands behind its end")
	}
	return nil
}
