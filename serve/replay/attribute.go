package replay

import (
	"strings"

	"sheaf/internal/weburl"
)

// srcset rewrites a list such as "a.png 1x, b.png 2x". A comma within a URL is part of it; a comma
// at its end is a separator (HTML, 4.8.4.2.2).
func (l *linker) srcset(s string) string {
	const space = " \t\r\n\f"
	var out []string
	for {
		if s = strings.TrimLeft(s, space+","); s == "" {
			return strings.Join(out, ", ")
		}
		end := strings.IndexAny(s, space)
		if end < 0 {
			end = len(s)
		}
		ref, descriptor := s[:end], ""
		s = s[end:]
		if trimmed := strings.TrimRight(ref, ","); trimmed != ref {
			ref = trimmed
		} else {
			descriptor, s = cutDescriptor(s)
		}
		if to, ok := l.part(ref); ok {
			ref = strings.ReplaceAll(to, ",", "%2C")
		}
		out = append(out, strings.TrimSpace(ref+" "+strings.TrimSpace(descriptor)))
	}
}

// cutDescriptor cuts s at the first comma that is not in parentheses.
func cutDescriptor(s string) (descriptor, rest string) {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth = max(0, depth-1)
		case ',':
			if depth == 0 {
				return s[:i], s[i+1:]
			}
		}
	}
	return s, ""
}

// refresh rewrites "5; url=next.html".
func (l *linker) refresh(content string) change {
	delay, ref, ok := cutRefresh(content)
	if !ok {
		return change{}
	}
	to, ok := l.page(ref, "")
	switch {
	case ok:
		return change{changes, delay + "; url=" + to}
	case isScript(ref):
		return change{what: goes}
	}
	return change{}
}

// Refresh returns where a Refresh header of a page leads, as an absolute URL; "": nowhere.
func Refresh(header, page string) string {
	base, err := weburl.New(page, nil)
	_, ref, ok := cutRefresh(header)
	if err != nil || !ok {
		return ""
	}
	to, err := base.Resolve(ref, nil)
	if err != nil || !strings.HasPrefix(to, "http://") && !strings.HasPrefix(to, "https://") {
		return ""
	}
	return to
}

// cutRefresh parses a refresh as loosely as the HTML standard (4.2.5.3).
func cutRefresh(s string) (delay, ref string, ok bool) {
	s = strings.TrimSpace(s)
	rest := strings.TrimLeft(s, "0123456789.")
	delay = s[:len(s)-len(rest)]
	if delay == "" && !strings.HasPrefix(s, ";") && !strings.HasPrefix(s, ",") {
		return "", "", false
	}
	rest = strings.TrimLeft(rest, " \t\r\n\f;,")
	if len(rest) >= 3 && strings.EqualFold(rest[:3], "url") {
		if after := strings.TrimSpace(rest[3:]); strings.HasPrefix(after, "=") {
			rest = strings.TrimSpace(after[1:])
		}
	}
	if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
		rest, _, _ = strings.Cut(rest[1:], rest[:1])
	}
	return delay, rest, rest != ""
}
