// Package jsontext reads JSON that is just as one program writes it, in a fraction of the
// time of encoding/json: text whose fields and their order are known is taken apart from its beginning.
// Whatever else the text is, a Scanner only says that it is not so; its user then reads it properly.
package jsontext

import (
	"strconv"
	"strings"
)

// Scanner takes a text apart from its beginning. Rest is what is left of it.
type Scanner struct{ Rest string }

// Skip takes a prefix off, if it is there.
func (s *Scanner) Skip(prefix string) (ok bool) {
	s.Rest, ok = strings.CutPrefix(s.Rest, prefix)
	return ok
}

// Text takes a prefix and a string behind it off, if that is of plain ASCII without escapes.
// What it gives is a part of the text.
func (s *Scanner) Text(prefix string, to *string) bool {
	after, ok := strings.CutPrefix(s.Rest, prefix)
	if !ok || after == "" || after[0] != '"' {
		return false
	}
	for i := 1; i < len(after); i++ {
		switch c := after[i]; {
		case c == '"':
			*to, s.Rest = after[1:i], after[i+1:]
			return true
		case c == '\\' || c < ' ' || c >= 0x7f:
			return false
		}
	}
	return false
}

// Number takes digits off, as JSON writes a whole number that is not negative.
func (s *Scanner) Number(to *int64) bool {
	i := 0
	for i < len(s.Rest) && '0' <= s.Rest[i] && s.Rest[i] <= '9' {
		i++
	}
	if i == 0 || i > 18 || i > 1 && s.Rest[0] == '0' {
		return false
	}
	n, err := strconv.ParseInt(s.Rest[:i], 10, 64)
	*to, s.Rest = n, s.Rest[i:]
	return err == nil
}
