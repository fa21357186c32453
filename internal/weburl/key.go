package weburl

import (
	"slices"
	"strings"
)

// Key returns the part after the host of a URL's key in an archive's index. rest is the part after
// the host of the URL, without a fragment. The form is that of the Internet Archive and pywb: in
// lower case, with sorted query parameters, and without needless escapes, session IDs and a final
// slash. So several URLs have the same key, and a search for one of them finds all.
func Key(rest string) string {
	path, query, _ := strings.Cut(rest, "?")
	key, params := withoutSession(keyPath(path)), keyParameters(query)
	params = slices.DeleteFunc(params, keySession)
	slices.Sort(params)
	if query = strings.Join(params, "&"); query != "" {
		key += "?" + query
	}
	return key
}

// keyPath returns a path in the form of a key, but still with its session IDs.
func keyPath(path string) string {
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
	return strings.ToLower(escape("/"+strings.Join(parts, "/"), keySet))
}

// withoutSession removes a jsessionid from the path of a key.
func withoutSession(path string) string {
	if before, after, ok := strings.Cut(path, ";jsessionid="); ok && len(after) >= 32 && isAlnum(after[:32]) {
		return before + after[32:]
	}
	return path
}

// keyParameters returns a query's parameters in the form of a key, but not yet sorted, and still
// with session IDs.
func keyParameters(query string) []string {
	return strings.Split(strings.ToLower(escape(unescapeAll(query), keySet)), "&")
}

// keySession reports whether a key leaves out a parameter because it is a session ID.
func keySession(param string) bool {
	key, value, _ := strings.Cut(param, "=")
	switch {
	case key == "jsessionid" || key == "phpsessid" || key == "sid":
		return len(value) == 32 && isAlnum(value)
	case strings.HasPrefix(key, "aspsessionid"):
		return len(key) == 20 && len(value) == 24 && isAlnum(value)
	}
	return false
}

func isAlnum(s string) bool {
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

// unescapeAll decodes percent-encoding until nothing changes: a byte that was decoded may end
// another escape.
func unescapeAll(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		out = append(out, s[i])
		for len(out) >= 3 {
			c, ok := Unhex(string(out[len(out)-3:]))
			if !ok {
				break
			}
			out = append(out[:len(out)-3], c)
		}
	}
	return string(out)
}
