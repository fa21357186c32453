// Package naming derives names from URLs: the host that a URL belongs to, the host's path in the
// tree of reversed names, the file name of a page in a tar, and the sort key (SURT) in an index.
// FORMAT.md of package archive states the promises of these names.
package naming

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sheaf/internal/weburl"
)

// MaxURL is the length of the longest URL that a segment keeps, in bytes.
const MaxURL = 4096

// HostOf returns the host that a URL belongs to: its authority in lower case, without the scheme's
// default port. Only http and https URLs in printable ASCII, with a path and without user and
// fragment, have a host.
func HostOf(rawURL string) (string, error) {
	if len(rawURL) > MaxURL {
		return "", fmt.Errorf("URL of %d bytes is longer than %d", len(rawURL), MaxURL)
	}
	for i := range len(rawURL) {
		if c := rawURL[i]; c <= ' ' || c >= 0x7f {
			return "", fmt.Errorf("URL %.100q has byte %#02x, which must be percent-encoded", rawURL, c)
		}
	}
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return "", fmt.Errorf("URL %.100q does not begin with http:// or https://", rawURL)
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 || rest[end] != '/' || strings.Contains(rest, "#") {
		return "", fmt.Errorf("URL %.100q has no path or has a fragment", rawURL)
	}
	host := strings.ToLower(rest[:end])
	if name, port := splitPort(host); port == "" || scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		host = name
	}
	return host, CheckHost(host)
}

// CheckHost checks that a host can be part of paths: it is a DNS name (underscores are allowed) or
// an IP literal, with an optional port. So it contains neither a separator nor "..".
func CheckHost(host string) error {
	name, port := splitPort(host)
	bad := name == "" || len(host) > 255 || strings.HasSuffix(host, ":") || strings.Trim(port, "0123456789") != "" || len(port) > 5
	if strings.HasPrefix(name, "[") {
		addr, err := netip.ParseAddr(strings.Trim(name, "[]"))
		bad = bad || err != nil || !addr.Is6() || addr.Zone() != "" || name != "["+addr.String()+"]"
	} else {
		for label := range strings.SplitSeq(name, ".") {
			bad = bad || label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" || strings.ContainsFunc(label, notHostRune)
		}
	}
	if bad {
		return fmt.Errorf("host %.100q is not a lower-case DNS name or IP literal with an optional port", host)
	}
	return nil
}

func notHostRune(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// splitPort splits "name:port". The name may be a bracketed IPv6 literal.
func splitPort(host string) (name, port string) {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return host[:i], host[i+1:]
	}
	return host, ""
}

// HostDir returns the host's directory in a tar: "www.example.jp", "www.example.jp_8080",
// "[2001-db8--1]_8080". If the name could also be another host's or a reserved directory, it gets
// an underscore at its end.
func HostDir(host string) string {
	name, port := splitPort(host)
	if strings.HasPrefix(name, "[") {
		name = strings.ReplaceAll(name, ":", "-")
	}
	return joinPort(name, port)
}

func joinPort(name, port string) string {
	if port != "" {
		return name + "_" + port
	}
	if digits := strings.TrimRight(name, "0123456789"); strings.HasSuffix(digits, "_") || name == "_meta" || name == "_batch" || windowsReserved(name) {
		return name + "_"
	}
	return name
}

func cutPort(s string) (name, port string) {
	if name, ok := strings.CutSuffix(s, "_"); ok {
		return name, ""
	}
	if i := strings.LastIndexByte(s, '_'); i >= 0 && strings.Trim(s[i+1:], "0123456789") == "" {
		return s[:i], s[i+1:]
	}
	return s, ""
}

// addressRoot is the directory, in the tree of reversed names, of hosts that are IP addresses.
const addressRoot = "_ip"

// HostPath returns the host's path in the tree of reversed names: "jp/ac/waseda/www",
// "jp/ac/waseda/www_8080", "_ip/192.0.2.1", "_ip/[2001-db8--1]_8080".
func HostPath(host string) string {
	name, port := splitPort(host)
	if isAddress(name) {
		return addressRoot + "/" + HostDir(host)
	}
	labels := strings.Split(name, ".")
	slices.Reverse(labels)
	last := len(labels) - 1
	labels[last] = joinPort(labels[last], port)
	return strings.Join(labels, "/")
}

// HostFromPath is the inverse of HostPath. It returns an error if the path is no host's.
func HostFromPath(path string) (string, error) {
	labels := strings.Split(path, "/")
	last := len(labels) - 1
	name, port := cutPort(labels[last])
	if addr, ok := strings.CutPrefix(path, addressRoot+"/"); ok && strings.ContainsAny(addr, ".[") {
		name = strings.TrimPrefix(name, addressRoot+"/")
		if strings.HasPrefix(name, "[") {
			name = strings.ReplaceAll(name, "-", ":")
		}
	} else {
		labels[last] = name
		slices.Reverse(labels)
		name = strings.Join(labels, ".")
	}
	if port != "" {
		name += ":" + port
	}
	if err := CheckHost(name); err != nil || HostPath(name) != path {
		return "", fmt.Errorf("path %.200q is not a host's", path)
	}
	return name, nil
}

func isAddress(name string) bool { return parsesAsAddress(strings.Trim(name, "[]")) }

// parsesAsAddress reports whether a text is an IP address without brackets. It looks at the end
// first: IPv4 addresses end in a digit, and IPv6 addresses have colons.
func parsesAsAddress(text string) bool {
	if text == "" || (text[len(text)-1] < '0' || text[len(text)-1] > '9') && !strings.Contains(text, ":") {
		return false
	}
	_, err := netip.ParseAddr(text)
	return err == nil
}

// HostSURT returns the host's exact sort key: "jp,ac,waseda,www", with ":8080" after it if it has a
// port. IP addresses are not reversed.
func HostSURT(host string) string {
	name, port := splitPort(host)
	if !isAddress(name) {
		labels := strings.Split(name, ".")
		slices.Reverse(labels)
		name = strings.Join(labels, ",")
	}
	if port != "" {
		name += ":" + port
	}
	return name
}

// pathAndQuery splits a URL that HostOf has accepted.
func pathAndQuery(rawURL string) (path, query string, hasQuery bool) {
	_, rest, _ := strings.Cut(rawURL, "://")
	_, rest, _ = strings.Cut(rest, "/")
	path, query, hasQuery = strings.Cut(rest, "?")
	return "/" + path, query, hasQuery
}

// windowsReserved reports whether Windows takes the name, up to its first point, for a device.
func windowsReserved(name string) bool {
	base, _, _ := strings.Cut(strings.ToLower(name), ".")
	switch base {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(base) == 4 && (base[:3] == "com" || base[:3] == "lpt") && base[3] >= '0' && base[3] <= '9'
}

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
