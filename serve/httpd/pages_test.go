package httpd_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/testkit"
	"sheaf/serve/records"
)

var (
	recordURL  = regexp.MustCompile(`(?m)^WARC-Target-URI: (.*)\r$`)
	recordTime = regexp.MustCompile(`(?m)^WARC-Date: (.*)\r$`)
)

// recordsOf returns the records of a warc.gz as "URL time", sorted.
func recordsOf(t *testing.T, data string) (captures []string) {
	t.Helper()
	r := strings.NewReader(data)
	zr, err := gzip.NewReader(r)
	for n := 0; err == nil; n++ {
		zr.Multistream(false)
		record, readErr := io.ReadAll(zr)
		if readErr != nil {
			t.Fatal(readErr)
		}
		if n > 0 { // the first is warcinfo
			captures = append(captures, recordURL.FindStringSubmatch(string(record))[1]+" "+recordTime.FindStringSubmatch(string(record))[1])
		}
		err = zr.Reset(r)
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	slices.Sort(captures)
	return captures
}

// filesIn returns the number of files in a tar.gz.
func filesIn(t *testing.T, data string) (n int) {
	t.Helper()
	zr, err := gzip.NewReader(strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for tr := tar.NewReader(zr); ; n++ {
		if _, err := tr.Next(); errors.Is(err, io.EOF) {
			return n
		} else if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, tr); err != nil {
			t.Fatal(err)
		}
	}
}

// files is how many files a tar of records, as told tells lines, has: pages, and what
// revisits refer to. Alone is how many without the latter.
func (c *crawl) files(lines []string) (files, alone int) {
	pages := make(map[int]bool) // by their order of publication
	at := make(map[string][]told)
	for _, r := range c.records {
		at[r.line()] = append(at[r.line()], r)
	}
	for _, line := range lines {
		r := at[line][0]
		at[line] = append(at[line][1:], r) // of equal ones each in turn
		if r.kind == archive.Page {
			pages[r.order] = true
		}
	}
	alone = len(pages)
	for _, line := range lines {
		for _, r := range at[line] {
			if r.kind != archive.Revisit {
				continue
			}
			original, found, exact := told{}, false, false
			for _, o := range c.records {
				if o.kind != archive.Page || o.url != r.url || o.digest != r.digest {
					continue
				}
				refers := o.time.Equal(r.time.Add(-time.Hour))
				before := o.time.Before(r.time) || o.time.Equal(r.time) && o.order < r.order
				later := o.time.After(original.time) || o.time.Equal(original.time) && o.order > original.order
				if refers && (!exact || later) || before && !exact && (!found || later) {
					original, found, exact = o, true, exact || refers
				}
			}
			if found {
				pages[original.order] = true
			}
		}
	}
	return len(pages), alone
}

// In each form the file has exactly the records of the index lines of the same query, and is the
// same in whatever ranges it is fetched.
func TestGatheredPages(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	c := newCrawl(t, 4, 300, records.Budget{})
	c.takeDown(t, catalog.Tombstone{Host: "www.example.jp", URLPrefix: "http://www.example.jp/a/"})
	r := rand.New(rand.NewPCG(4, 4))
	for n := 0; n < 25; n++ {
		q := ask(r)
		if q.list != "" {
			continue
		}
		values := url.Values(q.params).Encode()
		want := c.answer(q)
		files, alone := c.files(want)
		for i, line := range want {
			f := strings.Fields(line)
			want[i] = f[0] + " " + f[1]
		}
		slices.Sort(want)
		resp, warc := c.do(t, "GET", q.account, "/v1/pages.warc.gz?"+values, "")
		if got := recordsOf(t, warc); resp.StatusCode != 200 || !slices.Equal(got, want) {
			t.Fatalf("%s: %d, %d records, want %d\n%s", values, resp.StatusCode, len(got), len(want), difference(got, want))
		}
		for _, form := range []string{".tar.gz", ".members.tar.gz", ".warc.gz"} {
			path := "/v1/pages" + form + "?" + values
			resp, whole := c.do(t, "GET", q.account, path, "")
			if resp.ContentLength != int64(len(whole)) || resp.Header.Get("ETag") == "" || resp.Header.Get("Accept-Ranges") != "bytes" {
				t.Fatalf("%s: length %d, header %v", path, resp.ContentLength, resp.Header)
			}
			if form != ".warc.gz" && filesIn(t, whole) != files {
				t.Fatalf("%s: %d files, want %d", path, filesIn(t, whole), files)
			}
			if form == ".tar.gz" {
				if _, body := c.do(t, "GET", q.account, path+"&originals=false", ""); filesIn(t, body) != alone {
					t.Fatalf("%s without originals: %d files, want %d", path, filesIn(t, body), alone)
				}
			}
			from := r.IntN(len(whole))
			to := from + r.IntN(len(whole)-from)
			part, body := c.do(t, "GET", q.account, path, "", "Range", fmt.Sprintf("bytes=%d-%d", from, to), "If-Range", resp.Header.Get("ETag"))
			if part.StatusCode != http.StatusPartialContent || body != whole[from:to+1] {
				t.Fatalf("%s: bytes %d-%d: %d, %d bytes, want %d", path, from, to, part.StatusCode, len(body), to+1-from)
			}
		}
	}
	if resp, body := c.do(t, "GET", "all", "/v1/pages.warc.gz?url=*.jp&fl=url", ""); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, _ := c.do(t, "GET", "all", "/v1/pages.zip?url=*.jp", ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("%d", resp.StatusCode)
	}
}

// A publication or a take-down changes the file and its ETag at once.
func TestGatheredPagesChange(t *testing.T) {
	c := newCrawl(t, 2, 100, records.Budget{})
	const path = "/v1/pages.warc.gz?url=*.example.jp"
	before, _ := c.do(t, "HEAD", "all", path, "")
	c.takeDown(t, catalog.Tombstone{Host: "a.example.jp"})
	after, body := c.do(t, "GET", "all", path, "", "Range", "bytes=10-20", "If-Range", before.Header.Get("ETag"))
	if after.StatusCode != http.StatusOK || after.Header.Get("ETag") == before.Header.Get("ETag") || len(body) >= int(before.ContentLength) {
		t.Errorf("%d, %d bytes before, %d after", after.StatusCode, before.ContentLength, len(body))
	}
	if slices.ContainsFunc(recordsOf(t, body), func(r string) bool { return strings.Contains(r, "//a.example.jp/") }) {
		t.Error("taken down, and given out")
	}
}

// The error for a query that is too large says what to do.
func TestTooMuchForAnAnswer(t *testing.T) {
	testkit.Slow(t)
	c := newCrawl(t, 2, 2000, records.Budget{Records: 1024})
	resp, body := c.do(t, "GET", "all", "/v1/pages.warc.gz", "")
	if resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(body, "POST") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// While its window is closed, an account may search but not download.
func TestGatheredPagesObeyTheWindow(t *testing.T) {
	c := newCrawl(t, 1, 50, records.Budget{})
	c.Account("shut", "never", "*")
	if resp, body := c.do(t, "GET", "shut", "/v1/cdx?url=*.jp", ""); resp.StatusCode != http.StatusOK || body == "" {
		t.Errorf("looking: %d", resp.StatusCode)
	}
	if resp, body := c.do(t, "GET", "shut", "/v1/pages.tar.gz?url=*.jp", ""); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("fetching: %d %.100s", resp.StatusCode, body)
	}
}

// GNU tar reads the files without a message.
func TestGatheredPagesInTar(t *testing.T) {
	tarPath := testkit.Tool(t, "tar")
	c := newCrawl(t, 3, 200, records.Budget{})
	for _, form := range []string{".tar.gz", ".members.tar.gz"} {
		_, body := c.do(t, "GET", "all", "/v1/pages"+form+"?url=*.jp&from=2026", "")
		cmd := exec.Command(tarPath, "tzf", "-")
		cmd.Stdin = strings.NewReader(body)
		var names, complaints strings.Builder
		cmd.Stdout, cmd.Stderr = &names, &complaints
		if err := cmd.Run(); err != nil || complaints.Len() > 0 || strings.Count(names.String(), "\n") != filesIn(t, body) {
			t.Errorf("tar tzf of pages%s: %v %s\n%.300s", form, err, complaints.String(), names.String())
		}
	}
}
