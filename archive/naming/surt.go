package naming

import (
	"slices"
	"strings"

	"sheaf/internal/weburl"
)

// SURT returns a URL's key in an index, "jp,ac,waseda)/path?query", as the Internet Archive and
// pywb write it: in lower case, without www, default port, session IDs and a trailing slash, with
// the query's parameters sorted. Several URLs may have the same key.
func SURT(rawURL string) string {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		return strings.ToLower(rawURL)
	}
	end := strings.IndexAny(rest+"/", "/?#")
	host := strings.ToLower(rest[:end])
	rest, _, _ = strings.Cut(rest[end:], "#")

	name, port := splitPort(host)
	name = strings.Trim(name, ".")
	if scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		port = ""
	}
	if parsesAsAddress(name) {
		host = name
	} else {
		labels := strings.Split(withoutWWW(name), ".")
		slices.Reverse(labels)
		host = strings.Join(labels, ",")
	}
	if port != "" {
		host += ":" + port
	}
	return host + ")" + weburl.Key(rest)
}

// withoutWWW drops a first label of "www" and digits.
func withoutWWW(name string) string {
	first, rest, ok := strings.Cut(name, ".")
	if digits, www := strings.CutPrefix(first, "www"); ok && www && strings.Trim(digits, "0123456789") == "" {
		return rest
	}
	return name
}
