package httpd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/internal/webpage"
	"sheaf/serve/httpd"
	"sheaf/serve/records"
	"sheaf/serve/servetest"
	"sheaf/test/operatorstest"
)

// newKnown publishes six records of one page and two of another.
func newKnown(t *testing.T, budget records.Budget) *crawl {
	t.Helper()
	c := &crawl{Site: servetest.New(t, nil)}
	c.Account("all", "always", "*")
	at := func(day, hour int) time.Time { return time.Date(2026, 11, day, hour, 0, 0, 0, time.UTC) }
	const a, b = "http://www.example.jp/a", "http://www.example.jp/b"
	c.Publish("20261101", map[string][]*archive.Record{"www.example.jp": {
		servetest.Page(a, "one", at(1, 0)),
		servetest.Again(a, "one", at(1, 0), at(1, 6)),
		servetest.Page(a, "two", at(1, 12)),
		servetest.Page(b, "b", at(1, 13)),
	}})
	c.Publish("20261102", map[string][]*archive.Record{"www.example.jp": {
		servetest.Page(a, "one", at(2, 0)),
		servetest.Answer(a, 404, at(2, 6)),
		servetest.Page(a, "two", at(2, 12)),
		servetest.Again(b, "not here", at(1, 1), at(2, 13)),
	}})
	c.serve(t, budget)
	return c
}

// serve serves what is published, within a budget for each answer.
func (c *crawl) serve(t *testing.T, budget records.Budget) {
	t.Helper()
	router := mux.NewRouter()
	err := httpd.Register(router, httpd.Options{
		Library: c.Library, Accounts: c.Accounts, Recorder: c.Log, Site: &webpage.Site{Version: "test"}, Budget: budget, Jobs: c.Jobs,
		Gate: operatorstest.Open,
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(router)
	t.Cleanup(server.Close)
	c.url = server.URL
}

// The parameters of the Internet Archive's server and of pywb work as their documents describe.
func TestOthersParameters(t *testing.T) {
	c := newKnown(t, records.Budget{})
	const ts = "&output=text&fl=timestamp"
	for ask, want := range map[string]string{
		"url=example.jp/a" + ts:                                         "20261101000000|20261101060000|20261101120000|20261102000000|20261102060000|20261102120000",
		"url=example.jp/a&limit=2" + ts:                                 "20261101000000|20261101060000",
		"url=example.jp/a&limit=-2" + ts:                                "20261102060000|20261102120000",
		"url=example.jp/a&limit=-1" + ts:                                "20261102120000",
		"url=example.jp/a&fastLatest=true" + ts:                         "20261102120000",
		"url=example.jp/a&fastLatest=true&limit=-5" + ts:                "20261101060000|20261101120000|20261102000000|20261102060000|20261102120000",
		"url=example.jp/a&fastLatest=true&limit=2" + ts:                 "20261102060000|20261102120000",
		"url=example.jp/a&fastLatest=false&limit=1" + ts:                "20261101000000",
		"url=example.jp/a&offset=4" + ts:                                "20261102060000|20261102120000",
		"url=example.jp/a&offset=1&limit=2" + ts:                        "20261101060000|20261101120000",
		"url=example.jp/a&offset=1&limit=-2" + ts:                       "20261102000000|20261102060000",
		"url=example.jp/a&offset=9" + ts:                                "",
		"url=example.jp/a&offset=0&limit=1" + ts:                        "20261101000000",
		"url=example.jp/a&closest=20261101130000&limit=1&offset=1" + ts: "20261101060000",
		"url=example.jp/*&offset=5&filter=!statuscode:404" + ts:         "20261101130000|20261102130000",
		"url=example.jp/a&collapse=timestamp:8&offset=1" + ts:           "20261102000000",
		"url=example.jp/a&output=text&fields=timestamp&limit=1":         "20261101000000",
		"url=example.jp/a&sort=reverse&limit=1" + ts:                    "20261102120000",
		"url=example.jp/a&gzip=false&allowFuzzy=false&limit=1" + ts:     "20261101000000",

		// Internet Archive: the counters are columns after the fields.
		"url=example.jp/a&showDupeCount=true" + ts:                                             "20261101000000 0|20261101060000 1|20261101120000 0|20261102000000 2|20261102060000 0|20261102120000 1",
		"url=example.jp/a&showDupeCount=true&filter=statuscode:200" + ts:                       "20261101000000 0|20261101120000 0|20261102000000 1|20261102120000 1",
		"url=example.jp/a&showDupeCount=true&limit=1&offset=3" + ts:                            "20261102000000 2",
		"url=example.jp/a&showDupeCount=false&limit=1" + ts:                                    "20261101000000",
		"url=example.jp/a&collapse=timestamp:8&showSkipCount=true" + ts:                        "20261101000000 2|20261102000000 2",
		"url=example.jp/a&collapse=timestamp:8&showSkipCount=true&lastSkipTimestamp=true" + ts: "20261101000000 2 20261101120000|20261102000000 2 20261102120000",
		"url=example.jp/a&collapse=digest&lastSkipTimestamp=true" + ts:                         "20261101000000 20261101060000|20261101120000 -|20261102000000 -|20261102060000 -|20261102120000 -",
		"url=example.jp/a&filter=statuscode:200&showSkipCount=true" + ts:                       "20261101000000 1|20261101120000 0|20261102000000 1|20261102120000 0",
		"url=example.jp/a&collapse=timestamp:8&showSkipCount=true&limit=1" + ts:                "20261101000000 2",
	} {
		resp, body := c.do(t, "GET", "all", "/v1/cdx?"+ask, "")
		if got := strings.ReplaceAll(strings.TrimSuffix(body, "\n"), "\n", "|"); got != want || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d\n%s, want\n%s", ask, resp.StatusCode, got, want)
		}
	}
	for ask, want := range map[string]string{
		"url=*.jp&limit=-1":                             "limit",
		"url=*.jp&fastLatest=true":                      "fastLatest",
		"url=example.jp/a&fastLatest=perhaps":           "fastLatest",
		"url=example.jp/a&fastLatest=1&collapse=digest": "fastLatest",
		"url=example.jp/a&offset=-1":                    "offset",
		"url=example.jp/a&offset=many":                  "offset",
		"url=example.jp/*&showDupeCount=true":           "showDupeCount",
		"url=example.jp/a&showDupeCount=1&sort=reverse": "showDupeCount",
		"url=example.jp/a&showSkipCount=1&latest=1":     "showSkipCount",
		"url=example.jp/a&lastSkipTimestamp=1&limit=-1": "lastSkipTimestamp",
		"url=example.jp/a&gzip=some":                    "gzip",
		"url=example.jp/a&modified=2026/2025":           "modified",
		"url=example.jp/a&modified=/":                   "modified",
		"url=example.jp/a&modified=soon":                "modified",
		"url=example.jp/a&resolveRevisits=some":         "resolveRevisits",
		"url=example.jp/a&fl=dupecount":                 "fl",
	} {
		resp, body := c.do(t, "GET", "all", "/v1/cdx?"+ask, "")
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, want+"=") {
			t.Errorf("%s: %d %s, want 400 that names %s", ask, resp.StatusCode, body, want)
		}
	}
}

// Records can be asked for by what their servers said of the last change of a page.
func TestModified(t *testing.T) {
	t.Parallel()
	c := &crawl{Site: servetest.New(t, nil)}
	c.Account("all", "always", "*")
	at := func(day int) time.Time { return time.Date(2026, 11, day, 0, 0, 0, 0, time.UTC) }
	changed := func(r *archive.Record, when string) *archive.Record {
		r.HTTP = bytes.Replace(r.HTTP, []byte("\r\n\r\n"), []byte("\r\nlast-modified: "+when+"\r\n\r\n"), 1)
		return r
	}
	const site = "http://www.example.jp/"
	old := changed(servetest.Page(site+"old", "old", at(1)), "Sun, 06 Nov 1994 08:49:37 GMT")
	c.Publish("20261101", map[string][]*archive.Record{"www.example.jp": {
		old,
		changed(servetest.Page(site+"new", "new", at(1)), "Sat, 31 Oct 2026 23:59:59 GMT"),
		servetest.Page(site+"silent", "silent", at(1)),
		changed(servetest.Page(site+"wrong", "wrong", at(1)), "yesterday"),
	}})
	c.Publish("20261102", map[string][]*archive.Record{"www.example.jp": {
		servetest.Again(site+"old", "old", at(1), at(2)), // says nothing: its page counts
		changed(servetest.Again(site+"new", "new", at(1), at(2)), "Mon, 02 Nov 2026 00:00:00 GMT"),
	}})
	want := map[string]string{
		"modified=1994":                          "/old 20261101000000 1994-11-06T08:49:37Z|/old 20261102000000 1994-11-06T08:49:37Z",
		"modified=19941106084937/19941106084937": "/old 20261101000000 1994-11-06T08:49:37Z|/old 20261102000000 1994-11-06T08:49:37Z",
		"modified=2026-10-31/":                   "/new 20261101000000 2026-10-31T23:59:59Z|/new 20261102000000 2026-11-02T00:00:00Z",
		"modified=2026-11-01/":                   "/new 20261102000000 2026-11-02T00:00:00Z",
		"modified=/2025&limit=1":                 "/old 20261101000000 1994-11-06T08:49:37Z|/old 20261102000000 1994-11-06T08:49:37Z", // in two parts
		"modified=1995/2025":                     "",
		"filter==modified:&from=2026&latest=1":   "/silent 20261101000000 -|/wrong 20261101000000 -",
	}
	for _, budget := range []records.Budget{{}, {Time: 1}} { // without a limit, and a record at a time
		c.serve(t, budget)
		for ask, want := range want {
			path, answers := "/v1/cdx?url=www.example.jp/*&output=text&fl=url,timestamp,modified&"+ask, 0
			all := ""
			for ; path != ""; answers++ {
				resp, body := c.do(t, "GET", "all", path, "")
				if resp.StatusCode != http.StatusOK {
					t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
				}
				all += body
				path, _, _ = strings.Cut(strings.TrimPrefix(resp.Header.Get("Link"), "<"), ">")
			}
			got := strings.ReplaceAll(strings.ReplaceAll(strings.TrimSuffix(all, "\n"), "\n", "|"), "http://www.example.jp", "")
			if got != want {
				t.Errorf("%s: \n%s, want\n%s", ask, got, want)
			}
			if budget.Time > 0 && answers < 3 {
				t.Errorf("%s: %d answers, although each record is read", ask, answers)
			}
		}
	}
	for _, costly := range []string{"modified=2026&closest=2026", "modified=2026&limit=-1", "modified=2026&fastLatest=1", "filter=modified:2026&limit=-1", "filter=modified:2026&closest=2026"} {
		if resp, body := c.do(t, "GET", "all", "/v1/cdx?url=www.example.jp/old&"+costly, ""); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "modified") {
			t.Errorf("%s: %d %s", costly, resp.StatusCode, body)
		}
	}
	if resp, body := c.do(t, "GET", "all", "/v1/coverage?modified=2026", ""); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("coverage: %d %s", resp.StatusCode, body)
	}
}

// The line of a revisit can have the place of the page that it refers to.
func TestResolveRevisits(t *testing.T) {
	c := newKnown(t, records.Budget{})
	_, body := c.do(t, "GET", "all", "/v1/cdx?url=example.jp/*&resolveRevisits=true&output=ndjson", "")
	var resolved, alone int
	for line := range strings.Lines(body) {
		var f struct {
			MIME, Timestamp string
			Length          string `json:"orig.length"`
			Offset          string `json:"orig.offset"`
			File            string `json:"orig.filename"`
		}
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		switch {
		case f.Timestamp == "20261101060000":
			var from, n int
			fmt.Sscan(f.Offset, &from)
			fmt.Sscan(f.Length, &n)
			_, data := c.do(t, "GET", "all", "/pub/"+f.File, "", "Range", fmt.Sprintf("bytes=%d-%d", from, from+n-1))
			if record := gunzip(t, data); !strings.Contains(record, "WARC-Type: response") || !strings.Contains(record, "WARC-Date: 2026-11-01T00:00:00") {
				t.Errorf("%s leads to %.300q", line, record)
			}
			resolved++
		case f.Length != "" || f.Offset != "" || f.File != "":
			t.Errorf("%s refers to nothing that is here", line)
		default:
			alone++
		}
	}
	if resolved != 1 || alone != 7 {
		t.Errorf("%d resolved, %d not:\n%s", resolved, alone, body)
	}
	_, body = c.do(t, "GET", "all", "/v1/cdx?url=example.jp/b&output=text&fl=timestamp&resolveRevisits=true", "")
	if body != "20261101130000 - - -\n20261102130000 - - -\n" {
		t.Errorf("as text: %q", body)
	}
}

// With counters and with skipped records, an answer fetched in parts of any size is the same as the
// whole one. The Link header and the resumption key both lead on.
func TestCountersInParts(t *testing.T) {
	for _, budget := range []records.Budget{{}, {Records: 1}} {
		c := newKnown(t, budget)
		for _, ask := range []string{
			"url=example.jp/a&showDupeCount=true", "url=example.jp/*&offset=3", "url=example.jp/*&offset=2&collapse=digest",
			"url=example.jp/a&showDupeCount=true&offset=2&collapse=timestamp:8", "url=example.jp/*&collapse=timestamp:8&showSkipCount=true",
		} {
			_, whole := c.do(t, "GET", "all", "/v1/cdx?output=text&fl=timestamp&"+ask, "")
			for limit := 1; limit <= 3; limit++ {
				byLink, path := "", fmt.Sprintf("/v1/cdx?output=text&fl=timestamp&limit=%d&%s", limit, ask)
				for path != "" {
					resp, body := c.do(t, "GET", "all", path, "")
					byLink += body
					path, _, _ = strings.Cut(strings.TrimPrefix(resp.Header.Get("Link"), "<"), ">")
				}
				byKey, key := "", ""
				for {
					_, body := c.do(t, "GET", "all", fmt.Sprintf("/v1/cdx?output=text&fl=timestamp&limit=%d&showResumeKey=true&%s&resumeKey=%s", limit, ask, url.QueryEscape(key)), "")
					lines, next, more := strings.Cut(body, "\n\n")
					if byKey += lines; !more {
						break
					}
					byKey, key = byKey+"\n", strings.TrimSpace(next)
				}
				if byLink != whole || byKey != whole {
					t.Errorf("%s by %d:\n%s\nby key\n%s\nwant\n%s", ask, limit, byLink, byKey, whole)
				}
			}
		}
	}
}

// A client that takes gzip gets a long answer in it, with another ETag.
func TestCompressedAnswer(t *testing.T) {
	c := newCrawl(t, 2, 200, records.Budget{})
	const path = "/v1/cdx?url=*.example.jp"
	plain, want := c.do(t, "GET", "all", path, "", "Accept-Encoding", "identity")
	coded, body := c.do(t, "GET", "all", path, "", "Accept-Encoding", "gzip")
	if coded.Header.Get("Content-Encoding") != "gzip" || gunzip(t, body) != want || len(body)*2 > len(want) ||
		coded.Header.Get("ETag") == plain.Header.Get("ETag") || coded.Header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("%v: %d bytes of %d", coded.Header, len(body), len(want))
	}
	if again, _ := c.do(t, "GET", "all", path, "", "Accept-Encoding", "gzip", "If-None-Match", coded.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
		t.Errorf("the same again: %d", again.StatusCode)
	}
	if off, body := c.do(t, "GET", "all", path+"&gzip=false", "", "Accept-Encoding", "gzip"); off.Header.Get("Content-Encoding") != "" || body != want {
		t.Errorf("gzip=false: %v", off.Header)
	}
	if short, _ := c.do(t, "GET", "all", path+"&limit=1", "", "Accept-Encoding", "gzip"); short.Header.Get("Content-Encoding") != "" {
		t.Errorf("a short one: %v", short.Header)
	}
}

// The pages of an answer, of any size, have together what the whole answer has, in its order, with
// and without the URL index. showNumPages gives their number.
func TestPagesOfAnswers(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	c := newKnown(t, records.Budget{})
	hosts := map[string][]*archive.Record{}
	for n := range 10_000 {
		host := "www.large.jp"
		if n%3 == 0 {
			host = fmt.Sprintf("h%d.small.jp", n%90)
		}
		hosts[host] = append(hosts[host], servetest.Answer(fmt.Sprintf("http://%s/%05d", host, n), 404, day))
	}
	c.Publish("20261103", hosts)
	for _, indexed := range []bool{false, true} {
		if indexed {
			c.Index()
		}
		for _, ask := range []struct {
			url   string
			least [2]int // pages of one block, without and with the index
		}{{"*.jp", [2]int{3, 5}}, {"*.large.jp", [2]int{1, 3}}, {"large.jp/*", [2]int{1, 3}}, {"www.large.jp/1*", [2]int{1, 1}}, {"*.small.jp", [2]int{2, 2}}, {"example.jp/a", [2]int{1, 1}}, {"nothing.jp", [2]int{1, 1}}} {
			path := "/v1/cdx?output=text&fl=url,timestamp&pageSize=1&url=" + ask.url
			_, whole := c.do(t, "GET", "all", path+"&limit=100000", "")
			_, body := c.do(t, "GET", "all", path+"&showNumPages=true", "")
			var pages int
			if _, err := fmt.Sscan(body, &pages); err != nil || pages < 1 {
				t.Fatalf("%s: %q", ask.url, body)
			}
			if least := ask.least[map[bool]int{false: 0, true: 1}[indexed]]; pages < least {
				t.Errorf("%s, index %t: %d pages, want %d at least", ask.url, indexed, pages, least)
			}
			got := ""
			for n := range pages {
				at := fmt.Sprintf("%s&page=%d", path, n)
				if n%2 == 0 {
					at += "&limit=700" // a page may come in parts itself
				}
				for at != "" {
					resp, body := c.do(t, "GET", "all", at, "")
					got += body
					at, _, _ = strings.Cut(strings.TrimPrefix(resp.Header.Get("Link"), "<"), ">")
				}
			}
			if got != whole {
				t.Errorf("%s, index %t: %d bytes in %d pages, want %d\n%s", ask.url, indexed, len(got), pages, len(whole), difference(strings.Split(got, "\n"), strings.Split(whole, "\n")))
			}
			if resp, body := c.do(t, "GET", "all", fmt.Sprintf("%s&page=%d", path, pages), ""); resp.StatusCode != http.StatusOK || body != "" {
				t.Errorf("%s: behind the last page: %d %.100q", ask.url, resp.StatusCode, body)
			}
		}
	}
	var told records.Pages
	_, body := c.do(t, "GET", "all", "/v1/cdx?url=*.jp&showNumPages=true", "")
	if err := json.Unmarshal([]byte(body), &told); err != nil || told.PageSize != 5 || told.Blocks != 4 || told.Pages < 1 || told.Pages > 2 {
		t.Errorf("%v: %s", err, body)
	}
	for ask, want := range map[string]string{
		"url=*.jp&page=first": "page", "url=*.jp&pageSize=0": "pageSize", "url=*.jp&pageSize=34": "pageSize", "url=*.jp&showNumPages=2": "showNumPages",
		"url=*.jp&page=0&latest=true": "page", "url=example.jp/a&page=0&closest=2026": "page", "url=example.jp/a&showNumPages=1&sort=reverse": "showNumPages",
	} {
		resp, body := c.do(t, "GET", "all", "/v1/cdx?"+ask, "")
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, want+"=") {
			t.Errorf("%s: %d %s, want 400 that names %s", ask, resp.StatusCode, body, want)
		}
	}
	if resp, body := c.do(t, "GET", "all", "/v1/cdx?url=example.jp/a&page=-1&limit=1", ""); resp.StatusCode != http.StatusOK || body == "" {
		t.Errorf("page=-1: %d %s", resp.StatusCode, body)
	}
	if resp, body := c.do(t, "POST", "all", "/v1/cdx?page=0", "a.jp\nb.jp\n"); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("pages of a list: %d %s", resp.StatusCode, body)
	}
}
