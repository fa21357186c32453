package display

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Harmless returns s with every control character, and every byte that is not UTF-8, written as in
// a string of Go, such as \x1b or \n. Characters that change the direction of writing count as
// control characters.
func Harmless(s string) string {
	if strings.IndexFunc(s, harmful) < 0 {
		return s
	}
	return string(appendHarmless(nil, []byte(s), false))
}

// HarmlessLines is Harmless for several lines: line feeds and tabs stay.
func HarmlessLines(s string) string { return string(appendHarmless(nil, []byte(s), true)) }

func harmful(r rune) bool {
	return r == utf8.RuneError || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// appendHarmless appends the harmless form of s. If lines is true, line feeds and tabs stay.
func appendHarmless(b, s []byte, lines bool) []byte {
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		switch {
		case lines && (r == '\n' || r == '\t'), !harmful(r), r == utf8.RuneError && n > 1:
			b = append(b, s[:n]...)
		case r == utf8.RuneError:
			b = append(b, `\x`...)
			b = append(b, "0123456789abcdef"[s[0]>>4], "0123456789abcdef"[s[0]&15])
		default:
			q := strconv.AppendQuoteRuneToASCII(nil, r)
			b = append(b, q[1:len(q)-1]...)
		}
		s = s[n:]
	}
	return b
}

// NewHarmlessWriter returns a Writer that writes the harmless form of its input to w, as
// HarmlessLines does for a text.
func NewHarmlessWriter(w io.Writer) io.Writer { return &writer{w: w} }

type writer struct {
	w    io.Writer
	part []byte // of a character that the next Write may complete
}

func (w *writer) Write(p []byte) (int, error) {
	text := append(bytes.Clone(w.part), p...)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if at := len(text) - back; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	w.part = bytes.Clone(text[whole:])
	if _, err := w.w.Write(appendHarmless(nil, text[:whole], true)); err != nil {
		return 0, err
	}
	return len(p), nil
}
