package media

import (
	"bytes"
	"iter"
	"strings"
)

// StyleRef is an address in a style sheet.
type StyleRef struct {
	Start, End int    // of the text that stands for it: all of url(…), or a string with its quotes
	Raw        []byte // the address as it is written; UnescapeStyle decodes its backslashes
	Func       bool   // it is written as url(…)
}

// StyleRefs yields the addresses of a style sheet in their order, comments and other strings left
// out. The reader of an encoding in which a character's second byte may look like a backslash gives
// leads, which reports whether a byte is such a character's first. It is nil for UTF-8.
func StyleRefs(sheet []byte, leads func(byte) bool) iter.Seq[StyleRef] {
	return func(yield func(StyleRef) bool) {
		s := scanner{leads}
		inSet := 0 // parentheses open within image-set(
		for i := 0; i < len(sheet); {
			rest := sheet[i:]
			n := 1
			var raw []byte
			fn := false
			switch c := rest[0]; {
			case s.lead(c):
				n = 2
			case bytes.HasPrefix(rest, []byte("/*")):
				n = len(rest)
				if end := bytes.Index(rest[2:], []byte("*/")); end >= 0 {
					n = end + 4
				}
			case (c == 'u' || c == 'U') && hasPrefixFold(rest, "url("):
				n, raw = s.url(rest)
				fn = true
			case c == '@' && hasPrefixFold(rest, "@import"):
				n = len("@import") + cssBlanks(rest[len("@import"):])
				if n < len(rest) && isQuote(rest[n]) {
					i += n
					n, raw = s.str(rest[n:])
				}
			case c == '@' && hasPrefixFold(rest, "@namespace"):
				n = s.rule(rest) // its address is a name, and nothing is fetched from there
			case (c == 'i' || c == 'I') && hasPrefixFold(rest, "image-set("):
				n = len("image-set(")
				inSet = 1
			case isQuote(c):
				if n, raw = s.str(rest); inSet == 0 {
					raw = nil
				}
			case inSet > 0 && hasPrefixFold(rest, "type("):
				n = bytes.IndexByte(rest, ')') + 1
			case c == '(' && inSet > 0:
				inSet++
			case c == ')' && inSet > 0:
				inSet--
			}
			n = max(n, 1)
			if len(raw) > 0 && !yield(StyleRef{Start: i, End: i + n, Raw: raw, Func: fn}) {
				return
			}
			i += n
		}
	}
}

type scanner struct{ leads func(byte) bool }

func (s scanner) lead(c byte) bool { return s.leads != nil && s.leads(c) }

// rule measures an at-rule without a block, up to its semicolon.
func (s scanner) rule(text []byte) (n int) {
	for n < len(text) && text[n] != ';' && text[n] != '{' {
		step := 1
		switch rest := text[n:]; {
		case s.lead(rest[0]):
			step = 2
		case isQuote(rest[0]):
			step, _ = s.str(rest)
		case hasPrefixFold(rest, "url("):
			step, _ = s.url(rest)
		}
		n += max(step, 1)
	}
	return min(n, len(text))
}

// url measures "url(…)" and finds what is in it; raw is nil where it has no end.
func (s scanner) url(text []byte) (n int, raw []byte) {
	i := len("url(")
	i += cssBlanks(text[i:])
	if i < len(text) && isQuote(text[i]) {
		k, raw := s.str(text[i:])
		i += k
		i += cssBlanks(text[i:])
		if raw == nil || i >= len(text) || text[i] != ')' {
			return i, nil
		}
		return i + 1, raw
	}
	for j := i; j < len(text); j++ {
		switch c := text[j]; {
		case s.lead(c), c == '\\':
			j++
		case c == ')':
			return j + 1, trim(text[i:j])
		}
	}
	return len(text), nil
}

// str measures a quoted string, which a line end breaks off.
func (s scanner) str(text []byte) (n int, raw []byte) {
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case s.lead(c), c == '\\':
			i++
		case c == text[0]:
			return i + 1, text[1:i]
		case c == '\n':
			return i, nil
		}
	}
	return len(text), nil
}

// trim takes blanks off an address, but for a blank that an escape before it has made part of it.
func trim(raw []byte) []byte {
	out := bytes.TrimRight(raw, " \t\r\n\f")
	if len(out) < len(raw) && bytes.HasSuffix(out, []byte(`\`)) {
		out = raw[:len(out)+1]
	}
	return out
}

// Unescape decodes backslashes. decode gets what follows one, which is not empty. It writes what
// stands for that, and returns how many bytes it has decoded. A backslash at the end stays.
func Unescape(s string, decode func(to *strings.Builder, after string) int) string {
	before, after, escaped := strings.Cut(s, `\`)
	if !escaped {
		return s
	}
	var b strings.Builder
	for escaped && after != "" {
		b.WriteString(before)
		before, after, escaped = strings.Cut(after[decode(&b, after):], `\`)
	}
	b.WriteString(before)
	if escaped {
		b.WriteByte('\\')
	}
	return b.String()
}

// UnescapeStyle decodes backslashes of a style sheet: before hexadecimal digits a character's
// number, before a line end nothing, otherwise the character itself.
func UnescapeStyle(s string) string {
	return Unescape(s, func(to *strings.Builder, after string) int {
		r, n := rune(0), 0
		for n < 6 && n < len(after) && unhex(after[n]) >= 0 {
			r = r<<4 | unhex(after[n])
			n++
		}
		switch {
		case n > 0:
			to.WriteRune(r) // U+FFFD for what is no character
			return n + min(cssBlanks([]byte(after[n:])), 1)
		case after[0] != '\n':
			to.WriteByte(after[0])
		}
		return 1
	})
}

// QuoteStyle writes an address, which holds no quotes and no line ends, as a string.
func QuoteStyle(address string) string {
	return `"` + strings.ReplaceAll(address, `\`, `\\`) + `"`
}

func unhex(c byte) rune {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return rune(c|0x20-'a') + 10
	}
	return -1
}

func isQuote(c byte) bool { return c == '"' || c == '\'' }

func cssBlanks(s []byte) int { return len(s) - len(bytes.TrimLeft(s, " \t\r\n\f")) }

func hasPrefixFold(s []byte, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(string(s[:len(prefix)]), prefix)
}
