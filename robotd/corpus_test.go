package robotd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
)

// body returns the stored body of a page in a batch.
func (s *service) body(t *testing.T, batch int, host string, c archive.Cell) []byte {
	t.Helper()
	s.mu.Lock()
	m := s.batches[batch].manifest
	data := s.uploads[string(m.Batch)].Bytes()
	s.mu.Unlock()
	i := slices.IndexFunc(m.Hosts, func(h wire.Host) bool { return h.Name == host })
	view, err := archive.PageBodyOf(archive.FileSource(bytes.NewReader(data), m.Hosts[i].Offset), &c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := view.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	body, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// lawfulGaps are HTML files that links lead to and that are not to be collected.
var lawfulGaps = map[string]map[string]string{
	"edge.jp.test": {
		"robots-disallowed/x.html": "robots.txt disallows it",
		"robots-noarchive.html":    "it asks not to be archived",
	},
}

// The robot collects the shared corpus: sites in every encoding of the Japanese
// web. Every page that links lead to is collected once, with the bytes that the server
// has; on the days after, those that changed are new, and the others are revisits.
//
// It is the small corpus, with SHEAF_TEST_CORPUS=most all hosts but the three largest, and with
// SHEAF_TEST_CORPUS=1 the whole corpus on 90 days.
func TestCorpus(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	days, leftOut := []int{13, 20}, smallCorpus // on day 20 the encoding of all pages changes
	size := os.Getenv("SHEAF_TEST_CORPUS")
	switch size {
	case "1": // a quarter of an hour and 400 MB
		days, leftOut = nil, nil
		for day := range 90 {
			days = append(days, day+1)
		}
	case "most":
		days, leftOut = []int{4}, largeHosts
	}
	c := newCorpus(t, leftOut...)
	if size == "" {
		c.fewerLinks(t)
	}
	var seeds []string
	for _, site := range c.sites {
		for _, path := range site.seeds {
			seeds = append(seeds, "http://"+site.host+path)
		}
	}
	s := newService(t, seeds...)
	cfg := testConfig(t, s, c.addr)
	cfg.Interval, cfg.Page.Probe = time.Microsecond, true
	r, err := New(cfg, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	collect := func() {
		t.Helper()
		if err := r.Cycle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	collect()
	full := make(map[string]string) // URL → the body last taken in full
	for _, site := range c.sites {
		t.Run(site.host, func(t *testing.T) { c.wantReached(t, s, site, full) })
	}
	for _, h := range s.all()[0].manifest.Coverage {
		if len(h.Marked) != 0 || len(h.Failed) != 0 || h.Left != 0 {
			t.Errorf("real pages are taken for no pages, or not reached: %+v", h)
		}
	}
	t.Run("urls.html", func(t *testing.T) { c.wantResolved(t, s) })
	s.assign(slices.DeleteFunc(seeds, func(seed string) bool {
		_, err := os.Stat(filepath.Join(c.dir, "days", weburl.Host(seed)))
		return err != nil
	})...)
	for i, day := range days {
		c.setDay(t, day)
		collect()
		t.Run(fmt.Sprintf("day %d", day), func(t *testing.T) {
			for _, site := range c.sites {
				if _, err := os.Stat(filepath.Join(c.dir, "days", site.host)); err == nil {
					c.wantChanges(t, s, i+1, site.host, full)
				}
			}
		})
	}
}

// wantReached holds what was collected of a site against what the server has.
func (c *corpus) wantReached(t *testing.T, s *service, site corpusSite, full map[string]string) {
	files := c.files(t, site.host)
	missing := maps.Clone(files)
	for url, cell := range s.cells(0, site.host) {
		at := strings.TrimPrefix(url, "http://"+site.host)
		status, body, err := c.get(t, site.host, at)
		if err != nil {
			t.Fatal(err)
		}
		if cell.Status != status {
			t.Errorf("%s: status %d, the server says %d", url, cell.Status, status)
		}
		if cell.Kind != archive.Page {
			continue
		}
		if full[url] = string(s.body(t, 0, site.host, cell)); full[url] != body {
			t.Errorf("%s: %d bytes are stored, the server has %d others", url, len(full[url]), len(body))
		}
		delete(missing, fileOf(files, at))
	}
	for name, why := range lawfulGaps[site.host] {
		if !missing[name] {
			t.Errorf("%s is collected: %s", name, why)
		}
	}
	if got := len(files) - len(missing) + len(lawfulGaps[site.host]); got != site.reach {
		t.Errorf("%d HTML files collected, %d can be reached; not collected: %q", got, site.reach, slices.Sorted(maps.Keys(missing)))
	}
}

// wantResolved looks for every page that a browser would find in urls.html.
func (c *corpus) wantResolved(t *testing.T, s *service) {
	text, err := os.ReadFile(filepath.Join(c.dir, "edge-urls.expected.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	cells := s.cells(0, "edge.jp.test")
	checked := 0
	for line := range bytes.Lines(text) {
		var ref [2]string
		if err := json.Unmarshal(line, &ref); err != nil {
			t.Fatal(err)
		}
		scheme, _, _ := strings.Cut(ref[1], ":")
		if scheme != "http" && scheme != "https" {
			continue
		}
		checked++
		want, _, _ := strings.Cut(ref[1], "#")
		// In markup, which is where the robot met it, a NUL reads as U+FFFD.
		want = weburl.Canonical(strings.ReplaceAll(want, "%00", "%EF%BF%BD"))
		if host := weburl.Host(want); host == "edge.jp.test" && scheme == "http" {
			if _, ok := cells[want]; !ok && len(weburl.PathQuery(want)) <= 2048 {
				t.Errorf("%q leads to %.200s, which was not asked for", ref[0], want)
			}
		} else if top, _, err := wire.NormalizeURL(scheme + "://" + host + "/"); err == nil && c.addr[host] == "" && !slices.Contains(s.found, top) {
			t.Errorf("%q leads to the host of %s, which was not reported", ref[0], want)
		}
	}
	if checked < 40 {
		t.Errorf("only %d references", checked)
	}
}

// wantChanges holds a later day's batch against what the server has on that day.
func (c *corpus) wantChanges(t *testing.T, s *service, batch int, host string, full map[string]string) {
	changed, same, gone := 0, 0, 0
	cells := s.cells(batch, host)
	for url := range full {
		if _, ok := cells[url]; !ok && weburl.Host(url) == host {
			t.Errorf("%s was not visited again", url)
		}
	}
	for url, cell := range cells {
		status, body, err := c.get(t, host, strings.TrimPrefix(url, "http://"+host))
		if err != nil {
			t.Fatal(err)
		}
		before, known := full[url]
		want := archive.Response
		switch {
		case status != http.StatusOK:
			gone++
			delete(full, url)
		case known && before == body:
			want = archive.Revisit
			same++
		default:
			want = archive.Page
			full[url] = body
			changed++
		}
		if cell.Kind != want {
			t.Errorf("%s: a %v, want a %v", url, cell.Kind, want)
			continue
		}
		if want == archive.Page && string(s.body(t, batch, host, cell)) != body {
			t.Errorf("%s: not the %d bytes that the server has", url, len(body))
		}
	}
	t.Logf("%s: %d new or changed, %d the same, %d gone", host, changed, same, gone)
	if same == 0 && changed == 0 {
		t.Errorf("nothing of %s was visited", host)
	}
}
