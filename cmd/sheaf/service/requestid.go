package service

import (
	"net/http"
	"regexp"
	"strings"

	"sheaf/internal/peer"
	"sheaf/internal/problem"
)

// requestIDs gives each request an ID, and sends it in a header of the answer. A trusted proxy may
// choose the ID (see peer.Proxied), in X-Request-Id or as the trace ID of traceparent (W3C Trace
// Context, 3.2). An ID from any other client, or a malformed ID, is replaced.
func requestIDs(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var id string
		if peer.Proxied(r.Context()) {
			id = given(r.Header)
		}
		if id == "" {
			id = peer.NewID()
		}
		w.Header().Set(problem.HeaderRequest, id)
		next.ServeHTTP(w, r.WithContext(peer.WithRequest(r.Context(), id)))
	})
}

var (
	wellFormed = regexp.MustCompile(`^[A-Za-z0-9._:/+=@-]{1,128}$`)
	traceID    = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?$`)
)

// given returns the ID in the headers of a request, or "" if the ID is missing or malformed. A
// header that comes twice does not count: one of the two may be the client's own.
func given(h http.Header) string {
	if ids := h.Values(problem.HeaderRequest); len(ids) > 0 {
		if len(ids) == 1 && wellFormed.MatchString(ids[0]) {
			return ids[0]
		}
		return ""
	}
	parents := h.Values("Traceparent")
	if len(parents) != 1 {
		return ""
	}
	m := traceID.FindStringSubmatch(parents[0])
	if m == nil || strings.HasPrefix(parents[0], "ff") || strings.Trim(m[1], "0") == "" {
		return ""
	}
	return m[1]
}

// sendRequestID returns a transport that sends each request's ID along.
func sendRequestID(next http.RoundTripper) http.RoundTripper { return sender{next} }

type sender struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s sender) RoundTrip(r *http.Request) (*http.Response, error) {
	if id := peer.Request(r.Context()); id != "" {
		r = r.Clone(r.Context()) // a transport must not change the request that it is given
		r.Header.Set(problem.HeaderRequest, id)
	}
	return s.next.RoundTrip(r)
}
