package urlindex

import (
	"strconv"
	"strings"
)

// scanRow reads the JSON of a row that is just as appendRow writes it, in a fraction of the
// time of encoding/json. Any other text it leaves to that: ok is false, and says
// nothing of whether it is good. The strings are parts of the text.
func scanRow(text string) (j rowJSON, ok bool) {
	s := scanner{text}
	ok = s.text(`{"url":`, &j.URL) && s.text(`,"mime":`, &j.MIME) && s.text(`,"status":`, &j.Status) &&
		s.text(`,"digest":`, &j.Digest) && s.text(`,"length":`, &j.Length) && s.text(`,"offset":`, &j.Offset) &&
		s.text(`,"filename":`, &j.Filename)
	if !ok {
		return j, false
	}
	s.text(`,"truncated":`, &j.Truncated) // what is not there stays in the way of what follows
	if s.skip(`,"ns":`) && !s.number(&j.Nanos) {
		return j, false
	}
	s.text(`,"refers":`, &j.Refers)
	j.Cell = new([9]int64)
	sep := `,"cell":[`
	for i := range j.Cell {
		if !s.skip(sep) || !s.number(&j.Cell[i]) {
			return j, false
		}
		sep = ","
	}
	ok = s.skip(`],"seq":`) && s.number(&j.Seq) && s.skip(`,"before":`) && s.number(&j.Before) && s.rest == "}"
	return j, ok
}

// scanner takes a text apart from its beginning.
type scanner struct{ rest string }

// skip takes a prefix off, if it is there.
func (s *scanner) skip(prefix string) (ok bool) {
	s.rest, ok = strings.CutPrefix(s.rest, prefix)
	return ok
}

// text takes a prefix and a string behind it off, if that is of plain ASCII without escapes.
func (s *scanner) text(prefix string, to *string) bool {
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
func (s *scanner) number(to *int64) bool {
	i := 0
	for i < len(s.rest) && '0' <= s.rest[i] && s.rest[i] <= '9' {
		i++
	}
	if i == 0 || i > 18 || i > 1 && s.rest[0] == '0' {
		return false
	}
	n, err := strconv.ParseInt(s.rest[:i], 10, 64)
	*to, s.rest = n, s.rest[i:]
	return err == nil
}
