package urlindex

import (
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/naming"
	"sheaf/internal/testkit"
)

// A row is the same whatever row it is read behind: of its URL or another, and of any kind.
func TestRowsReadBehindOthers(t *testing.T) {
	page, other := madeUp(1, 1), madeUp(2, 2)
	page.Name, other.Name = naming.FileName(page.Host(), page.URL), naming.FileName(other.Host(), other.URL)
	revisit, response, part, secure := *page, *page, *page, *page
	revisit.Kind, revisit.Name, revisit.HeaderLen, revisit.MIME = archive.Revisit, "", 0, "warc/revisit"
	revisit.RefersDate = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	response.Kind, response.Name, response.HeaderLen = archive.Response, "", 0
	part.Kind, part.Name = archive.Partial, "a.example.jp/part~x"
	secure.URL = "https" + page.URL[len("http"):] // its key is the same
	secure.Name = naming.FileName(secure.Host(), secure.URL)
	all := []*Row{page, other, &revisit, &response, &part, &secure}
	for _, before := range all {
		for _, want := range all {
			first, err := parseRow(appendRow(nil, before))
			testkit.Must(t, err)
			got, err := parseAfter(first, appendRow(nil, want))
			testkit.Must(t, err)
			if *got != *want {
				t.Errorf("behind a %v of %s: %+v, want %+v", before.Kind, before.URL, got, want)
			}
		}
	}
}
