package catalog

import (
	"strings"
	"time"

	"sheaf/archive/sortedrun"
)

// scanEntry parses the JSON of an entry exactly as a draft writes it. It is much faster than
// encoding/json, which took most of a host's look-up time. For any other text, valid or not, ok is
// false: the caller then uses encoding/json. The strings share memory with the text.
func scanEntry(text string) (e SegmentEntry, ok bool) {
	s := sortedrun.LineScanner{Rest: strings.TrimSuffix(text, "\n")}
	ok = s.Text(`{"edition":`, &e.Edition) && s.Number(`,"seq":`, &e.Seq) && scanTime(&s, `,"published":`, &e.Published) &&
		s.Text(`,"host":`, &e.Host) && s.Text(`,"surt":`, &e.SURT) && s.Text(`,"object":`, &e.Object) &&
		s.Number(`,"offset":`, &e.Offset) && s.Number(`,"length":`, &e.Length) &&
		s.Number(`,"index_offset":`, &e.IndexOffset) && s.Number(`,"index_length":`, &e.IndexLength) &&
		scanTime(&s, `,"first":`, &e.First) && scanTime(&s, `,"last":`, &e.Last) &&
		s.Number(`,"records":`, &e.Records) && s.Number(`,"revisits":`, &e.Revisits) && s.Number(`,"files":`, &e.Files)
	if !ok {
		return e, false
	}
	s.Text(`,"preferences":`, &e.Preferences) // a missing field is skipped
	ok = s.Text(`,"sha256":`, &e.SHA256) && (!s.Skip(`,"views":`) || scanViews(&s, &e)) &&
		s.Text(`,"batch":`, &e.Batch) && s.Text(`,"batch_sha256":`, &e.BatchSHA256) && s.Text(`,"robot":`, &e.Robot)
	s.Text(`,"collection":`, &e.Collection)
	return e, ok && s.Rest == "}"
}

// scanTime removes a prefix and the time after it, and stores the time.
func scanTime(s *sortedrun.LineScanner, prefix string, to *time.Time) bool {
	var text string
	return s.Text(prefix, &text) && to.UnmarshalText([]byte(text)) == nil
}

// scanViews removes the JSON object of views that comes next, and stores the views.
func scanViews(s *sortedrun.LineScanner, e *SegmentEntry) bool {
	e.Views = make(map[string]View)
	for before := "{"; before == "{" || !s.Skip("}"); before = "," {
		var kind string
		var v View
		if !s.Text(before, &kind) || !s.Number(`:{"size":`, &v.Size) || !s.Text(`,"sha256":`, &v.SHA256) || !s.Text(`,"etag":`, &v.ETag) {
			return false
		}
		s.Number(`,"offset":`, &v.Offset)
		if !s.Skip("}") {
			return false
		}
		e.Views[kind] = v
	}
	return true
}
