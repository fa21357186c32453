package archive

import (
	"strconv"
	"strings"
)

// scanLine reads the JSON of an index line that is just as appendLine writes it, in a
// fraction of the time of encoding/json, which was most of what reading an index took.
// Any other text it leaves to that: ok is false, and says nothing of whether it is good.
func scanLine(text string) (l indexLine, ok bool) {
	s := lineScanner{strings.TrimSuffix(text, "\n")}
	ok = s.text(`{"url":`, &l.URL) && s.text(`,"mime":`, &l.MIME) && s.text(`,"status":`, &l.Status) &&
		s.text(`,"digest":`, &l.Digest) && s.text(`,"length":`, &l.Length) && s.text(`,"offset":`, &l.Offset)
	if !ok {
		return l, false
	}
	s.text(`,"truncated":`, &l.Truncated) // what is not there stays in the way of what follows
	if s.skip(`,"ns":`) {
		n, ok := s.number()
		if l.Nanos = int(n); !ok {
			return l, false
		}
	}
	s.text(`,"refers":`, &l.Refers)
	if !s.skip(`,"cell":[`) {
		return l, false
	}
	l.Cell = new([9]int64)
	for i := range l.Cell {
		if i > 0 && !s.skip(",") {
			return l, false
		}
		if l.Cell[i], ok = s.number(); !ok {
			return l, false
		}
	}
	if s.rest != "]}" {
		return l, false
	}
	// What a cell keeps must not keep the whole line.
	l.URL, l.MIME, l.Digest, l.Truncated = strings.Clone(l.URL), strings.Clone(l.MIME), strings.Clone(l.Digest), strings.Clone(l.Truncated)
	return l, true
}

// lineScanner takes a text apart from its beginning.
type lineScanner struct{ rest string }

// skip takes a prefix off, if it is there.
func (s *lineScanner) skip(prefix string) (ok bool) {
	s.rest, ok = strings.CutPrefix(s.rest, prefix)
	return ok
}

// text takes a prefix and a string behind it off, if that is of plain ASCII without escapes.
func (s *lineScanner) text(prefix string, to *string) bool {
	after, ok := strings.CutPrefix(s.rest, prefix)
	if !ok || after == "" || after[0] != '"' {
		return false
	}
	for i := 1; i < len(after); i++ {
		switch c := after[i]; {
		case c == '"':
			*to, s.rest = after[1:i], after[i+1:]
			return true
		case c == '\\' || c < ' ' || c >= 0x7f:
			return false
		}
	}
	return false
}

// number takes digits off, as JSON writes a whole number that is not negative.
func (s *lineScanner) number() (int64, bool) {
	i := 0
	for i < len(s.rest) && '0' <= s.rest[i] && s.rest[i] <= '9' {
		i++
	}
	if i == 0 || i > 18 || i > 1 && s.rest[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseInt(s.rest[:i], 10, 64)
	s.rest = s.rest[i:]
	return n, err == nil
}
