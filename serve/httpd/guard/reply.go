package guard

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"sheaf/internal/peer"
	"sheaf/internal/problem"
	"sheaf/internal/webpage"
	"sheaf/internal/wire"
)

// Found redirects with 302. Unlike http.Redirect it does not clean the path, which may hold a URL
// with slashes of its own.
func Found(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusFound)
}

// WantsJSON reports whether the client accepts JSON and does not accept HTML.
func WantsJSON(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "application/json") && !webpage.Wanted(r)
}

// TakesGzip reports whether the client takes gzip (RFC 9110, 12.5.3).
func TakesGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			return !strings.HasPrefix(strings.ReplaceAll(weight, " ", ""), "q=0") || strings.ContainsAny(weight, "123456789")
		}
	}
	return false
}

// Origin returns the beginning of the service's own URLs, such as "https://archive.example.jp". It
// is taken from public, the service's URL in its settings. If public is empty it is the address to
// which the client has connected, provided that the request names that address. Any other Host
// header is the client's invention, and a loopback address is useless to a client on another
// machine, which has come through a proxy. In both cases the origin is empty and URLs are relative.
func Origin(public string, r *http.Request) string {
	if u, err := url.Parse(public); err == nil && u.Host != "" {
		return u.Scheme + "://" + u.Host
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || peer.Elsewhere(r) || !names(r.Host, local.String()) {
		return ""
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// Reached returns two addresses for commands that a client may copy: the service's URL, and
// host:port of the FTP server that listens at ftp. The URL is public, as in the settings, or else
// the address to which the client has connected. An address that leads only to this machine is
// empty for clients elsewhere.
func Reached(public, ftp string, r *http.Request) (base, ftpAt string) {
	base = Origin(public, r)
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && base == "" && !peer.Elsewhere(r) {
		base = "http://" + local.String()
		if r.TLS != nil {
			base = "https://" + local.String()
		}
	}
	u, err := url.Parse(base)
	if err != nil {
		return "", ""
	}
	return base, peer.Announce(ftp, u.Hostname())
}

// names reports whether a Host header names the local end of a connection, by its address or as
// localhost.
func names(host, local string) bool {
	if host == local {
		return true
	}
	name, port, err := net.SplitHostPort(host)
	at, err2 := netip.ParseAddrPort(local)
	return err == nil && err2 == nil && name == "localhost" && at.Addr().Unmap().IsLoopback() && port == strconv.Itoa(int(at.Port()))
}

// CloseAfterChunks closes the connection after a request with Transfer-Encoding. Such a request may
// have had a Content-Length too, which net/http does not tell: a proxy in front may have believed
// the Content-Length and take the rest of the body for the next request (RFC 9112, 6.1).
func CloseAfterChunks(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// ByteRanges removes Range headers with other units than bytes. A server that does not know a unit
// must ignore it (RFC 9110, 14.2); net/http would answer 416.
func ByteRanges(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if value := r.Header.Get("Range"); value != "" {
			unit, set, _ := strings.Cut(value, "=")
			if strings.EqualFold(strings.TrimSpace(unit), "bytes") {
				r.Header.Set("Range", "bytes="+set)
			} else {
				r.Header.Del("Range")
			}
		}
		next.ServeHTTP(w, r)
	})
}

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
