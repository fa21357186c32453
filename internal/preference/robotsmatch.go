package preference

import (
	"strings"

	"sheaf/internal/weburl"
)

const hexDigits = "0123456789ABCDEF"

// normalizePath returns a path in a form that compares with patterns byte by byte (RFC 9309,
// 2.2.2): percent-encoded unreserved characters are decoded, everything outside ASCII is
// percent-encoded, and the digits are in upper case. Characters that have a meaning in patterns are
// percent-encoded.
func normalizePath(path string) string {
	if path == "" {
		return "/"
	}
	return normalize(path, "*$")
}

// normalizePattern returns a rule's pattern in the form of normalizePath, except that * and a final
// $ keep their meaning.
func normalizePattern(pattern string) string {
	body, anchored := strings.CutSuffix(pattern, "$")
	body = normalize(body, "$")
	for strings.Contains(body, "**") {
		body = strings.ReplaceAll(body, "**", "*")
	}
	if !strings.HasPrefix(body, "/") && !strings.HasPrefix(body, "*") {
		body = "/" + body
	}
	if anchored {
		body += "$"
	}
	return body
}

func normalize(s, encode string) string {
	out := make([]byte, 0, len(s)+8)
	for i := 0; i < len(s); i++ {
		c := s[i]
		if v, ok := weburl.Unhex(s[i:]); ok {
			i += 2
			if unreserved(v) {
				out = append(out, v)
			} else {
				out = append(out, '%', hexDigits[v>>4], hexDigits[v&15])
			}
			continue
		}
		if c <= ' ' || c >= 0x7f || strings.IndexByte(encode, c) >= 0 {
			out = append(out, '%', hexDigits[c>>4], hexDigits[c&15])
			continue
		}
		out = append(out, c)
	}
	return string(out)
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~'
}

// match reports whether a pattern matches the path from its start. It finds the parts between stars
// from left to right, each as early as possible. In the worst case the time is proportional to the
// product of the lengths.
func match(pattern, path string) bool {
	pattern, anchored := strings.CutSuffix(pattern, "$")
	first, rest, star := strings.Cut(pattern, "*")
	if !strings.HasPrefix(path, first) {
		return false
	}
	path = path[len(first):]
	if !star {
		return !anchored || path == ""
	}
	for {
		piece, next, more := strings.Cut(rest, "*")
		if !more && anchored {
			return strings.HasSuffix(path, piece)
		}
		i := strings.Index(path, piece)
		if i < 0 {
			return false
		}
		if !more {
			return true
		}
		path, rest = path[i+len(piece):], next
	}
}
