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

// A parameter with a session ID does not identify the page, but differs at each visit, so that the
// page would seem new each time. So the canonical form leaves out:
//
//   - ";name=value" at the end of a path segment and "name=value" in the query, if the name is only
//     used for sessions, or is "sid", "session" or the like and the value looks random;
//   - the path segment "(S(…))" of ASP.NET.

// isSession reports whether a parameter, such as "PHPSESSID=0123456789abcdef", has a session ID.
func isSession(param string) bool {
	name, value, ok := strings.Cut(param, "=")
	if !ok {
		return false
	}
	name = strings.ToLower(name)
	switch name {
	case "phpsessid", "jsessionid", "sessionid", "session_id", "sessid", "oscsid", "zenid", "xtcsid", "cfid", "cftoken", "jservsessionidroot":
		return true
	case "sid", "session", "sess", "s", "ssid":
		return looksRandom(value)
	}
	return strings.HasPrefix(name, "aspsessionid")
}

// looksRandom distinguishes a random token from a number, date or word: a token has 12 or more
// letters, digits, "-" and "_", and changes several times between digits and other characters.
func looksRandom(s string) bool {
	if len(s) < 12 {
		return false
	}
	changes := 0
	for i := 0; i < len(s); i++ {
		if !plain(s[i]) {
			return false
		}
		if i > 0 && isDigit(s[i]) != isDigit(s[i-1]) {
			changes++
		}
	}
	return changes >= 4
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// dropSessions removes the session parameters from a path and a query.
func dropSessions(path, query string) (string, string) {
	if strings.IndexByte(path, ';') >= 0 {
		segments := strings.Split(path, "/")
		for i, segment := range segments {
			segments[i] = dropFrom(segment, ";")
		}
		path = strings.Join(segments, "/")
	}
	if at := max(strings.Index(path, "/(S("), strings.Index(path, "/(s(")); at >= 0 {
		if token, rest, ok := strings.Cut(path[at+len("/(S("):], "))/"); ok && looksRandom(token) {
			path = path[:at+1] + rest
		}
	}
	if strings.IndexByte(query, '=') < 0 {
		return path, query
	}
	if query = dropFrom("&"+query, "&"); query != "" {
		query = query[1:]
	}
	return path, query
}

// dropFrom removes the session parameters after the first separator.
func dropFrom(s, sep string) string {
	parts := strings.Split(s, sep)
	kept := parts[:1]
	for _, p := range parts[1:] {
		if !isSession(p) {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, sep)
}
