package guard

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Found redirects with 302. Unlike http.Redirect it does not clean the path, which may hold a URL
// with slashes of its own.
func Found(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusFound)
}

// WantsHTML reports whether the client is a browser.
func WantsHTML(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// WantsJSON reports whether the client asks for JSON and is not a browser.
func WantsJSON(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "application/json") && !WantsHTML(r)
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
// is that of public, the service's URL from its settings. If public is empty it is the address to
// which the client has connected, provided that the request names that address. Any other Host
// header is the client's invention: then the origin is empty and URLs are relative.
func Origin(public string, r *http.Request) string {
	if u, err := url.Parse(public); err == nil && u.Host != "" {
		return u.Scheme + "://" + u.Host
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !names(r.Host, local.String()) {
		return ""
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// names reports whether a Host header is the local end of a connection, by number or as localhost.
func names(host, local string) bool {
	if host == local {
		return true
	}
	name, port, err := net.SplitHostPort(host)
	at, err2 := netip.ParseAddrPort(local)
	return err == nil && err2 == nil && name == "localhost" && at.Addr().Unmap().IsLoopback() && port == strconv.Itoa(int(at.Port()))
}
