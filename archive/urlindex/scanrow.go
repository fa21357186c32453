package urlindex

import "sheaf/archive/sortedrun"

// scanRow parses the JSON of a row exactly as appendRow writes it, much faster than encoding/json.
// For any other text, valid or not, ok is false: the caller then uses encoding/json. The strings
// share memory with the text.
func scanRow(text string) (j rowJSON, ok bool) {
	s := sortedrun.LineScanner{Rest: text}
	ok = s.Text(`{"url":`, &j.URL) && s.Text(`,"mime":`, &j.MIME) && s.Text(`,"status":`, &j.Status) &&
		s.Text(`,"digest":`, &j.Digest) && s.Text(`,"length":`, &j.Length) && s.Text(`,"offset":`, &j.Offset) &&
		s.Text(`,"filename":`, &j.Filename)
	if !ok {
		return j, false
	}
	s.Text(`,"truncated":`, &j.Truncated) // a missing field is skipped
	s.Number(`,"ns":`, &j.Nanos)
	s.Text(`,"refers":`, &j.Refers)
	s.Text(`,"refersto":`, &j.RefersTo)
	s.Text(`,"preferences":`, &j.Asked)
	s.Text(`,"part":`, &j.Part)
	j.Cell = new([9]int64)
	sep := `,"cell":[`
	for i := range j.Cell {
		if !s.Number(sep, &j.Cell[i]) {
			return j, false
		}
		sep = ","
	}
	ok = s.Number(`],"seq":`, &j.Seq) && s.Number(`,"before":`, &j.Before) && s.Rest == "}"
	return j, ok
}
