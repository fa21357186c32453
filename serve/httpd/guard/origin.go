package guard

import (
	"fmt"
	"net/http"
	"net/url"

	"sheaf/internal/problem"
	"sheaf/internal/wire"
)

// SameOrigin refuses, with 403, requests by which a page of another site could change something:
// the browser adds the name and password that its user has typed into this site. public is the
// service's own URL, if it is behind a proxy; it may be empty.
func SameOrigin(public string) func(http.Handler) http.Handler {
	check := http.NewCrossOriginProtection()
	if u, err := url.Parse(public); err == nil && u.Scheme != "" && u.Host != "" {
		_ = check.AddTrustedOrigin(u.Scheme + "://" + u.Host) // fails without scheme or host only
	}
	check.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		problem.Write(w, wire.Problem{Status: http.StatusForbidden, Reason: "cross_origin",
			Detail: fmt.Sprintf("%s from a page of another site (Origin %.200q) is refused; programs send no Origin", r.Method, r.Header.Get("Origin"))})
	}))
	return check.Handler
}

// What a script of another site may send and see: a player of archives reads their ranges from
// wherever it runs. The script must give a name and password itself: because of the "*" browsers do
// not add those that the user has typed into this site.
const (
	corsMethods = "GET, HEAD, OPTIONS"
	corsAccepts = "Authorization, Range, If-Range, If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, Accept-Datetime, Want-Repr-Digest"
	corsExposes = "Accept-Ranges, Content-Length, Content-Range, Content-Disposition, ETag, Last-Modified, Link, Location, Memento-Datetime, Repr-Digest, Retry-After, Vary"
	corsKept    = "86400" // seconds
)

// allowOrigins lets scripts of any site read (CORS protocol of the Fetch standard). It answers the
// OPTIONS requests that browsers send first.
func allowOrigins(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Expose-Headers", corsExposes)
		if r.Method != http.MethodOptions {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Allow", corsMethods)
		h.Set("Access-Control-Allow-Methods", corsMethods)
		h.Set("Access-Control-Allow-Headers", corsAccepts)
		h.Set("Access-Control-Max-Age", corsKept)
		w.WriteHeader(http.StatusNoContent)
	})
}
