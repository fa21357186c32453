package serve_test

import (
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/serve/records"
	"sheaf/serve/results"
	"sheaf/serve/servetest"
)

// A process that has not seen a publication yet of which another process knows finds nothing new.
func TestPublishedBehindTheNewest(t *testing.T) {
	s := servetest.New(t, nil)
	s.Publish("20261120", map[string][]*archive.Record{"www.example.jp": {servetest.Page("http://www.example.jp/", "x", dayOne)}})
	_, newest, err := s.Library.Records.Published(t.Context(), -1, 0)
	testkit.Must(t, err)
	if segments, last, err := s.Library.Records.Published(t.Context(), newest+1, 10); err != nil || len(segments) > 0 || last != newest+1 {
		t.Errorf("%d segments, %d, %v", len(segments), last, err)
	}
}

// What a revisit refers to is the page of the instant that it names, else the
// latest of the same content before it.
func TestWhatRevisitsReferTo(t *testing.T) {
	s := servetest.New(t, nil)
	at := func(hour int) time.Time { return time.Date(2026, 11, 20, hour, 0, 0, 0, time.UTC) }
	const url = "http://www.example.jp/"
	s.Publish("20261120", map[string][]*archive.Record{"www.example.jp": {
		servetest.Again(url, "x", at(0), at(1)),  // nothing before it, and not of at(0)
		servetest.Page(url, "x", at(2)),          //
		servetest.Page(url, "y", at(3)),          //
		servetest.Page(url, "x", at(4)),          //
		servetest.Again(url, "x", at(2), at(5)),  // names the first
		servetest.Again(url, "x", at(0), at(6)),  // the latest before
		servetest.Again(url, "y", at(2), at(7)),  // of that instant there is another content
		servetest.Again(url, "x", at(9), at(8)),  // names one that is fetched later
		servetest.Page(url, "x", at(9)),          //
		servetest.Again(url, "z", at(2), at(10)), // no such content
	}})
	want := map[int]int{5: 2, 6: 4, 7: 3, 8: 9}
	for _, c := range captures(t, s, everyone, url) {
		if c.Kind != archive.Revisit {
			continue
		}
		alone, err := c.Resolve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []*records.Capture{c.Original, alone} {
			if hour := want[c.Time.Hour()]; (got == nil) != (hour == 0) || got != nil && got.Time.Hour() != hour {
				t.Errorf("at %d: %+v, want %d", c.Time.Hour(), got, hour)
			}
		}
	}
}

// A revisit from another crawler finds its page in another edition and at another host, whichever
// came first, by URL and date if the digest says nothing.
func TestRevisitsAcrossFiles(t *testing.T) {
	s := servetest.New(t, nil)
	const url, copied = "http://www.example.jp/", "http://copy.example.org/"
	foreign := func(url, to string, date time.Time) *archive.Record {
		r := servetest.Again(url, "", date, dayOne.Add(time.Hour))
		r.PayloadDigest, r.RefersTo = "sha1:"+strings.Repeat("A", 32), to
		return r
	}
	s.Publish("20261120", map[string][]*archive.Record{
		"www.example.jp":   {foreign(url, "", dayOne), foreign(url+"never", "", dayOne)},
		"copy.example.org": {foreign(copied, url, dayOne)},
	})
	resolved := func(url string) bool {
		c := captures(t, s, everyone, url)[0:]
		last := c[len(c)-1]
		alone, err := last.Resolve(t.Context())
		testkit.Must(t, err)
		if (alone == nil) != (last.Original == nil) {
			t.Errorf("%s: %v and %v", url, alone, last.Original)
		}
		return alone != nil
	}
	if resolved(url) || resolved(copied) {
		t.Error("resolved before the page is here")
	}
	s.Publish("20261121", map[string][]*archive.Record{"www.example.jp": {servetest.Page(url, "x", dayOne)}})
	if !resolved(url) || !resolved(copied) || resolved(url+"never") {
		t.Errorf("%v %v, and of none %v", resolved(url), resolved(copied), resolved(url+"never"))
	}
}

// Very many revisits of one URL: with work that grows with the square of their
// number the test would not end in its time, as each of them would read and sort all others.
func TestManyRevisitsOfOneURL(t *testing.T) {
	testkit.Slow(t)
	revisits := testkit.Size(5_000, 20_000)
	s := servetest.New(t, nil)
	const url = "http://www.example.jp/"
	pages := []*archive.Record{servetest.Page(url, "x", dayOne)}
	for n := range revisits {
		pages = append(pages, servetest.Again(url, "x", dayOne, dayOne.Add(time.Duration(n+1)*time.Second)))
	}
	s.Publish("20261120", map[string][]*archive.Record{"www.example.jp": pages})
	for _, c := range captures(t, s, everyone, url)[1:] {
		if c.Original == nil || !c.Original.Time.Equal(dayOne) {
			t.Fatalf("%v refers to %v", c.Time, c.Original)
		}
	}
	// Gathered with originals, each revisit asks for its own.
	q, err := records.ParseQuery(map[string][]string{"url": {url}, "originals": {"true"}, "filter": {"kind:revisit"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	to, err := s.Library.Results.NewBundle(t.Context(), everyone, ".warc.gz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := results.Gather(t.Context(), q, s.Library.Records, everyone, to, ".warc.gz", records.Budget{}, func() {}); err != nil {
		t.Fatal(err)
	}
	g, err := to.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if g.Records() != int64(revisits)+1 {
		t.Errorf("%d records, want %d", g.Records(), revisits+1)
	}
}
