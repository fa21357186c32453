package replay

import (
	"bytes"
	"slices"
	"strings"

	"golang.org/x/net/html/atom"

	"sheaf/internal/media"
)

// tag is a parsed start tag. It keeps the original bytes, so that what does not change is written
// as it was.
type tag struct {
	raw   []byte
	name  string // lower case
	attrs []attr
	end   int // offset in raw for additional attributes
}

// attr is an attribute. Its positions are offsets in the tag.
type attr struct {
	name       string // lower case
	start, end int    // of name and value together
	from, to   int    // of the value without quotes; equal if there is none
	again      bool   // an earlier attribute has the same name: browsers ignore this one
	becomes    change
}

// parseTag parses a start tag like the HTML standard's tokenizer (from 13.2.5.32). raw begins with
// "<" and a letter. It reuses the memory of attrs.
func parseTag(raw []byte, attrs []attr) tag {
	t := tag{raw: raw, end: len(raw), attrs: attrs[:0]}
	if t.end > 0 && raw[t.end-1] == '>' {
		t.end--
	}
	i := 1
	for i < t.end && !isBlank(raw[i]) && raw[i] != '/' {
		i++
	}
	t.name = lowerName(raw[1:i])
	for {
		for i < t.end && (isBlank(raw[i]) || raw[i] == '/') {
			i++
		}
		if i >= t.end {
			break
		}
		a := attr{start: i}
		for i++; i < t.end && !isBlank(raw[i]) && raw[i] != '/' && raw[i] != '='; i++ {
		}
		a.name = lowerName(raw[a.start:i])
		a.end, a.from, a.to = i, i, i
		if next := i + blanks(raw[i:t.end]); next < t.end && raw[next] == '=' {
			i = next + 1
			i += blanks(raw[i:t.end])
			i = a.value(raw[:t.end], i)
		}
		if len(t.attrs) < maxAttrs {
			a.again = slices.ContainsFunc(t.attrs, func(b attr) bool { return b.name == a.name })
		} else {
			a.again = true // nobody writes so many: drop the rest
		}
		t.attrs = append(t.attrs, a)
	}
	if t.end > 1 && raw[t.end-1] == '/' && t.end < len(raw) && (len(t.attrs) == 0 || t.attrs[len(t.attrs)-1].end < t.end) {
		t.end-- // "<br/>": additional attributes go before the slash
	}
	return t
}

// value parses an attribute's value at i and returns its end.
func (a *attr) value(raw []byte, i int) int {
	a.from = i
	if i < len(raw) && (raw[i] == '"' || raw[i] == '\'') {
		a.from++
		if n := bytes.IndexByte(raw[a.from:], raw[i]); n >= 0 {
			a.to = a.from + n
			a.end = a.to + 1
			return a.end
		}
		a.to, a.end = len(raw), len(raw)
		return a.end
	}
	for i < len(raw) && !isBlank(raw[i]) {
		i++
	}
	a.to, a.end = i, i
	return i
}

// maxAttrs is the limit for the attributes of a tag. Further ones are dropped.
const maxAttrs = 200

// lowerName returns a name in lower case, without allocating if it is one of HTML's.
func lowerName(b []byte) string {
	var buf [32]byte
	if len(b) > len(buf) {
		return strings.ToLower(string(b))
	}
	for i, c := range b {
		buf[i] = lower(c)
	}
	if a := atom.Lookup(buf[:len(b)]); a != 0 {
		return a.String()
	}
	return string(buf[:len(b)])
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' }

// get returns an attribute's value, decoded, or "" if the tag does not have it.
func (t *tag) get(l *linker, name string) string {
	for _, a := range t.attrs {
		if a.name == name { // the first one
			return t.value(l, a)
		}
	}
	return ""
}

func (t *tag) value(l *linker, a attr) string {
	return media.AttributeValue(l.decode(t.raw[a.from:a.to]))
}

// change is what happens to an attribute.
type change struct {
	what  fate
	value string // new value if it changes
}

type fate int8

const (
	stays fate = iota
	goes
	changes
)

// write appends the tag with its attributes changed, and with more appended to them. more must be
// ASCII and begin with a space.
func (t *tag) write(dst []byte, more string) []byte {
	at := 0
	for _, a := range t.attrs {
		if a.becomes.what == stays && !a.again {
			continue
		}
		dst = append(dst, t.raw[at:a.start]...)
		if a.becomes.what == changes && !a.again {
			dst = append(append(dst, a.name...), `="`...)
			dst = appendValue(dst, a.becomes.value)
			dst = append(dst, '"')
			if a.end < len(t.raw) && !isBlank(t.raw[a.end]) && t.raw[a.end] != '>' && t.raw[a.end] != '/' {
				dst = append(dst, ' ')
			}
		}
		at = a.end
	}
	if more == "" {
		return append(dst, t.raw[at:]...)
	}
	end := max(t.end, at)
	dst = append(append(dst, t.raw[at:end]...), more...)
	return append(dst, t.raw[end:]...)
}

// appendValue escapes a value for double quotes. The result is ASCII, for a page in any encoding.
func appendValue(dst []byte, s string) []byte {
	for _, r := range s {
		switch {
		case r == '"':
			dst = append(dst, "&quot;"...)
		case r == '&':
			dst = append(dst, "&amp;"...)
		case r == '<':
			dst = append(dst, "&lt;"...)
		case r == '>':
			dst = append(dst, "&gt;"...)
		default:
			dst = appendRune(dst, r)
		}
	}
	return dst
}

// appendRune writes a character, as a character reference if it is not ASCII.
func appendRune(dst []byte, r rune) []byte {
	if r < 0x80 {
		return append(dst, byte(r))
	}
	const digits = "0123456789"
	var n [10]byte
	i := len(n)
	for ; r > 0; r /= 10 {
		i--
		n[i] = digits[r%10]
	}
	return append(append(append(dst, "&#"...), n[i:]...), ';')
}

func blanks(s []byte) int { return len(s) - len(bytes.TrimLeft(s, " \t\r\n\f")) }
