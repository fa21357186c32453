package archive

import (
	"strings"

	"sheaf/internal/jsontext"
)

// scanLine reads the JSON of an index line that is just as appendLine writes it, in a
// fraction of the time of encoding/json, which was most of what reading an index took.
// Any other text it leaves to that: ok is false, and says nothing of whether it is good.
func scanLine(text string) (l indexLine, ok bool) {
	s := jsontext.Scanner{Rest: strings.TrimSuffix(text, "\n")}
	ok = s.Text(`{"url":`, &l.URL) && s.Text(`,"mime":`, &l.MIME) && s.Text(`,"status":`, &l.Status) &&
		s.Text(`,"digest":`, &l.Digest) && s.Text(`,"length":`, &l.Length) && s.Text(`,"offset":`, &l.Offset)
	if !ok {
		return l, false
	}
	s.Text(`,"truncated":`, &l.Truncated) // what is not there stays in the way of what follows
	if s.Skip(`,"ns":`) {
		var n int64
		if !s.Number(&n) {
			return l, false
		}
		l.Nanos = int(n)
	}
	s.Text(`,"refers":`, &l.Refers)
	if !s.Skip(`,"cell":[`) {
		return l, false
	}
	l.Cell = new([9]int64)
	for i := range l.Cell {
		if i > 0 && !s.Skip(",") {
			return l, false
		}
		if !s.Number(&l.Cell[i]) {
			return l, false
		}
	}
	if s.Rest != "]}" {
		return l, false
	}
	// What a cell keeps must not keep the whole line.
	l.URL, l.MIME, l.Digest, l.Truncated = strings.Clone(l.URL), strings.Clone(l.MIME), strings.Clone(l.Digest), strings.Clone(l.Truncated)
	return l, true
}
