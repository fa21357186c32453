package extract

import (
	"strings"

	"sheaf/internal/weburl"
)

func (c *collector) newBase(abs string) {
	if u, err := weburl.New(abs, nil); err == nil {
		c.base = u
	}
}

// css takes the url(…) and @import "…" of a style sheet, comments left out.
func (c *collector) css(s, tag string) {
	link := Link{Tag: tag}
	for s != "" {
		i := strings.IndexAny(s, "/uU@")
		if i < 0 {
			return
		}
		s = s[i:]
		switch {
		case strings.HasPrefix(s, "/*"):
			_, after, ok := strings.Cut(s[2:], "*/")
			if !ok {
				return
			}
			s = after
		case hasPrefixFold(s, "url("):
			var ref string
			ref, s = cssURL(s[len("url("):])
			if ref != "" {
				c.add(ref, link)
			}
		case hasPrefixFold(s, "@import"):
			s = strings.TrimLeft(s[len("@import"):], " \t\r\n\f")
			if s != "" && (s[0] == '"' || s[0] == '\'') {
				var ref string
				ref, s = cssString(s)
				c.add(ref, link)
			}
		default:
			s = s[1:]
		}
	}
}

// cssURL reads what follows "url(", quoted or not.
func cssURL(s string) (ref, rest string) {
	s = strings.TrimLeft(s, " \t\r\n\f")
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		return cssString(s)
	}
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case ')':
			return cssUnescape(strings.TrimSpace(s[:i])), s[i+1:]
		}
	}
	return "", ""
}

// cssString reads a quoted string, which a line end breaks off.
func cssString(s string) (ref, rest string) {
	quote := s[0]
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case quote:
			return cssUnescape(s[1:i]), s[i+1:]
		case '\n':
			return "", s[i:]
		}
	}
	return "", ""
}

// cssUnescape takes the backslash from before a sign, as in "a\)b".
func cssUnescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
