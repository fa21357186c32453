package guard

import (
	"fmt"
	"net/http"
	"net/url"

	"sheaf/internal/problem"
	"sheaf/internal/wire"
)

// SameOrigin refuses, with 403, requests by which a page of another site could change something:
// the browser adds the name and password that its user has typed into this site. Public is the
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
