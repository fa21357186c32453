package replay

import (
	"bytes"
	"strings"

	"sheaf/internal/charset"
)

// css appends a style sheet to dst with its addresses rewritten: url(…), @import "…" and the
// strings of image-set(…).
func (l *linker) css(dst, s []byte) []byte {
	inSet := 0 // open parentheses within image-set(
	for len(s) > 0 {
		n, ref, quoted := 0, []byte(nil), false
		switch c := s[0]; {
		case l.leads(c) && len(s) > 1:
			dst = append(dst, s[:2]...)
			s = s[2:]
			continue
		case bytes.HasPrefix(s, []byte("/*")):
			n = len(s)
			if end := bytes.Index(s[2:], []byte("*/")); end >= 0 {
				n = end + 4
			}
		case (c == 'u' || c == 'U') && hasPrefixFold(s, "url("):
			n, ref = l.cssURL(s)
			quoted = true
		case c == '@' && hasPrefixFold(s, "@import"):
			n = len("@import") + blanks(s[len("@import"):])
			if n < len(s) && (s[n] == '"' || s[n] == '\'') {
				dst = append(dst, s[:n]...)
				s = s[n:]
				n, ref = l.cssString(s)
			}
		case (c == 'i' || c == 'I') && hasPrefixFold(s, "image-set("):
			n = len("image-set(")
			inSet = 1
		case c == '"' || c == '\'':
			if n, ref = l.cssString(s); inSet == 0 {
				ref = nil
			}
		case inSet > 0 && hasPrefixFold(s, "type("):
			n = bytes.IndexByte(s, ')') + 1
		case c == '(' && inSet > 0:
			n = 1
			inSet++
		case c == ')' && inSet > 0:
			n = 1
			inSet--
		}
		n = max(n, 1)
		to, ok := "", false
		if len(ref) > 0 {
			to, ok = l.part(cssUnescape(l.decode(ref)))
		}
		switch {
		case !ok:
			dst = append(dst, s[:n]...)
		case quoted:
			dst = append(dst, `url(`+cssQuote(to)+`)`...)
		default:
			dst = append(dst, cssQuote(to)...)
		}
		s = s[n:]
	}
	return dst
}

// cssURL returns the length of "url(…)" and the address in it; ref is nil if it has no end.
func (l *linker) cssURL(s []byte) (n int, ref []byte) {
	i := len("url(")
	i += blanks(s[i:])
	if i < len(s) && (s[i] == '"' || s[i] == '\'') {
		k, ref := l.cssString(s[i:])
		i += k
		i += blanks(s[i:])
		if ref == nil || i >= len(s) || s[i] != ')' {
			return i, nil
		}
		return i + 1, ref
	}
	for j := i; j < len(s); j++ {
		switch c := s[j]; {
		case l.leads(c):
			j++
		case c == '\\':
			j++
		case c == ')':
			return j + 1, bytes.TrimSpace(s[i:j])
		}
	}
	return len(s), nil
}

// cssString returns the length of a quoted string, which ends at a line end at the latest.
func (l *linker) cssString(s []byte) (n int, ref []byte) {
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case l.leads(c):
			i++
		case c == '\\':
			i++
		case c == s[0]:
			return i + 1, s[1:i]
		case c == '\n':
			return i, nil
		}
	}
	return len(s), nil
}

// cssQuote returns an address as a CSS string. The address must not have quotes or line ends.
func cssQuote(address string) string {
	return `"` + strings.ReplaceAll(address, `\`, `\\`) + `"`
}

// cssUnescape decodes backslashes. Before hexadecimal digits a backslash means a character's
// number, before a line end nothing, otherwise the character itself.
func cssUnescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		r, n := rune(0), 0
		for n < 6 && i+n < len(s) && unhex(s[i+n]) >= 0 {
			r = r<<4 | rune(unhex(s[i+n]))
			n++
		}
		switch {
		case n > 0:
			b.WriteRune(r) // U+FFFD for an invalid character
			i += n - 1
			if i+1 < len(s) && blanks([]byte(s[i+1:i+2])) == 1 {
				i++
			}
		case s[i] != '\n':
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func blanks(s []byte) int { return len(s) - len(bytes.TrimLeft(s, " \t\r\n\f")) }

func hasPrefixFold(s []byte, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(string(s[:len(prefix)]), prefix)
}

// twoBytes returns a test for the first byte of a character whose second byte may look like a
// backslash, or nil if the encoding has no such characters.
func twoBytes(cs charset.Charset) func(byte) bool {
	switch cs.Name {
	case "shift_jis":
		return func(c byte) bool { return 0x81 <= c && c <= 0x9f || 0xe0 <= c && c <= 0xfc }
	case "big5", "gbk", "gb18030", "euc-kr":
		return func(c byte) bool { return 0x81 <= c && c <= 0xfe }
	}
	return nil
}
