package replay

import (
	"strings"

	"sheaf/internal/media"
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
	delay, ref, ok := media.CutRefresh(content)
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
	_, ref, ok := media.CutRefresh(header)
	if err != nil || !ok {
		return ""
	}
	to, err := base.Resolve(ref, nil)
	if err != nil || !strings.HasPrefix(to, "http://") && !strings.HasPrefix(to, "https://") {
		return ""
	}
	return to
}
