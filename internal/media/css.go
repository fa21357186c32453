package media

import (
	"bytes"
	"iter"
	"strconv"
	"strings"
)

// StyleRef is a URL in a style sheet.
type StyleRef struct {
	Start, End int    // of the whole reference: all of url(…), or a string with its quotes
	Raw        []byte // the URL as it is written; UnescapeStyle decodes its backslashes
	Func       bool   // it is written as url(…)
}

// StyleRefs yields the URLs of a style sheet in their order, without those in comments and other
// strings. In some encodings a character's second byte may look like a backslash: then leads must
// report whether a byte is the first of such a character. For UTF-8 leads is nil.
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
				n = s.rule(rest) // the address in such a rule is only a name, and is not fetched
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

// rule returns the length of an at-rule without a block, up to its semicolon.
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

// url returns the length of "url(…)" and the URL in it; raw is nil if the parenthesis is not
// closed.
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

// str returns the length of a quoted string and its content. A line end breaks the string off.
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

// trim removes blanks at the end of a URL, except for a blank that is escaped.
func trim(raw []byte) []byte {
	out := bytes.TrimRight(raw, " \t\r\n\f")
	if len(out) < len(raw) && bytes.HasSuffix(out, []byte(`\`)) {
		out = raw[:len(out)+1]
	}
	return out
}

// Unescape decodes backslashes. decode gets the text after a backslash, which is not empty. decode
// writes the decoded character, and returns how many bytes of the text it has used. A backslash at
// the end stays.
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

// UnescapeStyle decodes the backslashes of a style sheet. A backslash and hexadecimal digits stand
// for the character of that number, a backslash and a line end for nothing, and a backslash and
// another character for that character.
func UnescapeStyle(s string) string {
	return Unescape(s, func(to *strings.Builder, after string) int {
		digits := after[:min(len(after), 6)]
		n := len(digits) - len(strings.TrimLeft(digits, hexDigits))
		switch {
		case n > 0:
			r, _ := strconv.ParseInt(digits[:n], 16, 32) // six digits always fit
			to.WriteRune(rune(r))                        // writes U+FFFD for a number of no character
			return n + min(cssBlanks([]byte(after[n:])), 1)
		case after[0] != '\n':
			to.WriteByte(after[0])
		}
		return 1
	})
}

// QuoteStyle returns a URL as a string of a style sheet. The URL must have no quotes and no line
// ends.
func QuoteStyle(address string) string {
	return `"` + strings.ReplaceAll(address, `\`, `\\`) + `"`
}

func isQuote(c byte) bool { return c == '"' || c == '\'' }

func cssBlanks(s []byte) int { return len(s) - len(bytes.TrimLeft(s, " \t\r\n\f")) }

func hasPrefixFold(s []byte, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(string(s[:len(prefix)]), prefix)
}
