package weburl

import "strings"

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
