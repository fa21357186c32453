package archive

import (
	"strings"

	"sheaf/archive/sortedrun"
)

// scanLine parses the JSON of an index line exactly as appendLine writes it. It is much faster than
// encoding/json, which took most of the time of reading an index. For any other text, valid or not,
// ok is false: the caller then uses encoding/json.
func scanLine(text string) (l indexLine, ok bool) {
	s := sortedrun.LineScanner{Rest: strings.TrimSuffix(text, "\n")}
	ok = s.Text(`{"url":`, &l.URL) && s.Text(`,"mime":`, &l.MIME) && s.Text(`,"status":`, &l.Status) &&
		s.Text(`,"digest":`, &l.Digest) && s.Text(`,"length":`, &l.Length) && s.Text(`,"offset":`, &l.Offset)
	if !ok {
		return l, false
	}
	s.Text(`,"truncated":`, &l.Truncated) // a missing field is skipped
	var nanos int64
	s.Number(`,"ns":`, &nanos)
	l.Nanos = int(nanos)
	s.Text(`,"refers":`, &l.Refers)
	s.Text(`,"refersto":`, &l.RefersTo)
	s.Text(`,"preferences":`, &l.Asked)
	s.Text(`,"part":`, &l.Part)
	l.Cell = new([9]int64)
	before := `,"cell":[`
	for i := range l.Cell {
		if !s.Number(before, &l.Cell[i]) {
			return l, false
		}
		before = ","
	}
	if s.Rest != "]}" {
		return l, false
	}
	// Copies, so that a cell does not keep the whole line in memory.
	l.URL, l.MIME, l.Digest, l.Truncated = strings.Clone(l.URL), strings.Clone(l.MIME), strings.Clone(l.Digest), strings.Clone(l.Truncated)
	l.RefersTo, l.Asked, l.Part = strings.Clone(l.RefersTo), strings.Clone(l.Asked), strings.Clone(l.Part)
	return l, true
}
