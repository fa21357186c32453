package weburl

import (
	"slices"
	"strings"
)

// Key returns what the key of a URL in the index of an archive has after the host. rest is what the
// URL has there, without a fragment. As the Internet Archive and pywb write it, a key is in lower
// case, without escapes that are not needed, session IDs and a final slash, and the parameters of
// its query are sorted. So several URLs have the same key, and whoever looks for one finds all.
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

// keyPath returns a path as a key has it, with the session IDs.
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
	return strings.ToLower(escapeMinimal("/" + strings.Join(parts, "/")))
}

// withoutSession removes the session ID that keys do not have from a path.
func withoutSession(path string) string {
	if before, after, ok := strings.Cut(path, ";jsessionid="); ok && len(after) >= 32 && isAlnum(after[:32]) {
		return before + after[32:]
	}
	return path
}

// keyParameters returns the parameters of a query as a key has them, in their order, with session
// IDs.
func keyParameters(query string) []string {
	return strings.Split(strings.ToLower(escapeMinimal(unescapeAll(query))), "&")
}

// keySession reports whether keys do not have a parameter, because it is a session ID.
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
			c, ok := unhex(string(out[len(out)-3:]))
			if !ok {
				break
			}
			out = append(out[:len(out)-3], c)
		}
	}
	return string(out)
}

// escapeMinimal encodes spaces, controls, bytes over ASCII, "#" and "%".
func escapeMinimal(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '#' || c == '%' {
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
