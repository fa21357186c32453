package naming

import (
	"net/netip"
	"slices"
	"strings"
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
	path, query, _ := strings.Cut(rest, "?")

	name, port := splitPort(host)
	name = strings.Trim(name, ".")
	if scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		port = ""
	}
	if _, err := netip.ParseAddr(name); err == nil {
		host = name
	} else {
		labels := strings.Split(withoutWWW(name), ".")
		slices.Reverse(labels)
		host = strings.Join(labels, ",")
	}
	if port != "" {
		host += ":" + port
	}
	key := host + ")" + surtPath(path)
	if query = surtQuery(query); query != "" {
		key += "?" + query
	}
	return key
}

// withoutWWW drops a first label of "www" and digits.
func withoutWWW(name string) string {
	first, rest, ok := strings.Cut(name, ".")
	if digits, www := strings.CutPrefix(first, "www"); ok && www && strings.Trim(digits, "0123456789") == "" {
		return rest
	}
	return name
}

func surtPath(path string) string {
	var parts []string
	for part := range strings.SplitSeq(unescapeAll(path), "/") {
		switch part {
		case "", ".":
		case "..":
			parts = parts[:max(len(parts)-1, 0)]
		default:
			parts = append(parts, part)
		}
	}
	path = strings.ToLower(escapeMinimal("/" + strings.Join(parts, "/")))
	if before, after, ok := strings.Cut(path, ";jsessionid="); ok && len(after) >= 32 && isAlnum(after[:32]) {
		path = before + after[32:]
	}
	return path
}

func surtQuery(query string) string {
	query = strings.ToLower(escapeMinimal(unescapeAll(query)))
	params := strings.Split(query, "&")
	params = slices.DeleteFunc(params, func(p string) bool {
		key, value, _ := strings.Cut(p, "=")
		switch {
		case key == "jsessionid" || key == "phpsessid" || key == "sid":
			return len(value) == 32 && isAlnum(value)
		case strings.HasPrefix(key, "aspsessionid"):
			return len(key) == 20 && len(value) == 24 && isAlnum(value)
		}
		return false
	})
	slices.Sort(params)
	return strings.Join(params, "&")
}

func isAlnum(s string) bool {
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

// unescapeAll decodes percent-encoding until nothing changes.
func unescapeAll(s string) string {
	for {
		once := Unescape(s)
		if once == s {
			return s
		}
		s = once
	}
}

// escapeMinimal encodes spaces, controls, bytes over ASCII, "#" and "%".
func escapeMinimal(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '#' || c == '%' {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
