package archive

import "strings"

// scanLine parses the JSON of an index line exactly as appendLine writes it. It is much faster than
// encoding/json, which took most of the time of reading an index. For any other text, valid or not,
// ok is false: the caller then uses encoding/json.
func scanLine(text string) (l indexLine, ok bool) {
	s := LineScanner{Rest: strings.TrimSuffix(text, "\n")}
	ok = s.Text(`{"url":`, &l.URL) && s.Text(`,"mime":`, &l.MIME) && s.Text(`,"status":`, &l.Status) &&
		s.Text(`,"digest":`, &l.Digest) && s.Text(`,"length":`, &l.Length) && s.Text(`,"offset":`, &l.Offset)
	if !ok {
		return l, false
	}
	s.Text(`,"truncated":`, &l.Truncated) // a missing field is skipped
	if s.Skip(`,"ns":`) {
		var n int64
		if !s.Number(&n) {
			return l, false
		}
		l.Nanos = int(n)
	}
	s.Text(`,"refers":`, &l.Refers)
	s.Text(`,"refersto":`, &l.RefersTo)
	s.Text(`,"preferences":`, &l.Asked)
	s.Text(`,"part":`, &l.Part)
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
	// Copies, so that a cell does not keep the whole line in memory.
	l.URL, l.MIME, l.Digest, l.Truncated = strings.Clone(l.URL), strings.Clone(l.MIME), strings.Clone(l.Digest), strings.Clone(l.Truncated)
	l.RefersTo, l.Asked, l.Part = strings.Clone(l.RefersTo), strings.Clone(l.Asked), strings.Clone(l.Part)
	return l, true
}
