package ui_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/serve/servetest"
)

// fetched returns what a browser fetches for a page: style sheets, scripts, pictures, frames.
func fetched(t *testing.T, page string) (urls []string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	testkit.Must(t, err)
	for n := range doc.Descendants() {
		attr := make(map[string]string)
		for _, a := range n.Attr {
			attr[a.Key] = a.Val
		}
		switch rel := attr["rel"]; {
		case n.Type != html.ElementNode:
		case n.Data == "link" && (rel == "stylesheet" || rel == "icon" || rel == "preload"):
			urls = append(urls, attr["href"])
		case attr["src"] != "":
			urls = append(urls, attr["src"])
		case attr["srcset"] != "" || n.Data == "object" || n.Data == "embed":
			t.Errorf("<%s %v> is not counted", n.Data, attr)
		}
	}
	return urls
}

// On a slow line the front page of a full archive is there soon: it and all that it needs are at
// most four requests and 60,000 bytes, without compression. Its chart and its lists are as long as
// they get.
func TestFrontPageIsLight(t *testing.T) {
	testkit.Slow(t)
	site := servetest.New(t, nil)
	for e := range 170 {
		hosts := make(map[string][]*archive.Record)
		at := time.Date(2026, 6, 1, 3, 0, 0, 0, time.UTC).AddDate(0, 0, e)
		for h := range 1 + 15*(e/169) {
			host := fmt.Sprintf("%s%d.kokubunji.ac.jp", strings.Repeat("long", 10), h)
			hosts[host] = []*archive.Record{servetest.Page("http://"+host+"/", "<p>one", at)}
		}
		site.Publish(at.Format("20060102"), hosts)
	}
	base := faceOf(t, site, strings.Repeat("What this archive is. ", 20))
	status, page := get(t, base+"/")
	if columns := strings.Count(page, `role="listitem"`); status != http.StatusOK || columns != 168 || strings.Count(page, "/browse/jp/ac/kokubunji/") < 10 {
		t.Fatalf("%d, a chart of %d columns: %s", status, columns, page)
	}
	requests, size := 1, len(page)
	for _, url := range fetched(t, page) {
		status, part := get(t, base+url)
		if status != http.StatusOK {
			t.Errorf("%s: %d", url, status)
		}
		requests, size = requests+1, size+len(part)
		if rest := strings.Count(part, "url(") - strings.Count(part, "url(data:"); rest > 0 || strings.Contains(part, "@import") {
			t.Errorf("%s leads to %d more files", url, rest)
		}
	}
	t.Logf("%d requests, %d bytes", requests, size)
	if requests > 4 || size > 60_000 {
		t.Errorf("%d requests, %d bytes", requests, size)
	}
}
