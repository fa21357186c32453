package httpd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/internal/wire"
	"sheaf/serve/records"
	"sheaf/serve/servetest"
)

// tell stores the manifest of a batch beside its segments, as ingest does.
func (c *crawl) tell(t *testing.T, batch string, created time.Time, coverage ...wire.Coverage) {
	t.Helper()
	m := wire.Manifest{
		Format: wire.ManifestFormat, Batch: wire.BatchID(batch), Robot: "r1", Created: created, Size: 1,
		SHA256: strings.Repeat("0", 64), Coverage: coverage,
	}
	data, err := m.Unsigned()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Store.Put(t.Context(), "batches/"+batch+".manifest", bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
}

// covered fetches all parts of an answer. It returns each line as "host day refused URLs".
func (c *crawl) covered(t *testing.T, account, parameters, limit string) (lines []string) {
	t.Helper()
	path := "/v1/coverage?" + parameters + "&limit=" + limit
	for range 100 {
		resp, body := c.do(t, "GET", account, path, "")
		var list api.CoverageList
		if err := json.Unmarshal([]byte(body), &list); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
		}
		for _, l := range list.Coverage {
			text := fmt.Sprintf("%s %d %d", l.Host, l.Created.Day(), l.Refused)
			for _, u := range l.URLs {
				text += " " + strings.TrimPrefix(u.URL, "http://"+l.Host) + "=" + u.Why
			}
			if l.Edition == "" || l.Batch == "" || l.Robot != "r1" || l.Published.IsZero() {
				t.Errorf("%+v", l)
			}
			lines = append(lines, text)
		}
		if list.Next == "" {
			return lines
		}
		next, err := url.Parse(strings.Split(resp.Header.Get("Link")[1:], ">")[0])
		if err != nil || next.Query().Get("cursor") != list.Next {
			t.Fatalf("Link %q", resp.Header.Get("Link"))
		}
		path = next.String()
	}
	t.Fatal("an answer without end")
	return nil
}

func TestCoverage(t *testing.T) {
	c := newCrawl(t, 2, 20, records.Budget{})
	for i, day := range []time.Time{time.Date(2026, 11, 1, 20, 0, 0, 0, time.UTC), time.Date(2026, 11, 2, 20, 0, 0, 0, time.UTC)} {
		c.tell(t, fmt.Sprintf("r1-%sT000000Z-%d", day.Format("20060102"), i+1), day,
			wire.Coverage{Host: "www.example.jp", Refused: int64(i + 1), URLs: []wire.CoveredURL{
				{URL: "http://www.example.jp/a", Why: "failed timeout"}, {URL: "http://www.example.jp/b", Why: "refused"}}},
			wire.Coverage{Host: "a.example.jp", Refused: 3},
			wire.Coverage{Host: "other.org", Refused: 4},
			wire.Coverage{Host: "never.org:81", Left: 5, LeftWhy: "window"}, // of which no page is published
		)
	}
	// An old batch without a manifest has no coverage.
	c.Publish("20261103", map[string][]*archive.Record{"new.jp": {servetest.Page("http://new.jp/", "new", day)}})
	every := []string{
		"www.example.jp 1 1 /a=failed timeout /b=refused", "a.example.jp 1 3", "other.org 1 4", "never.org:81 1 0",
		"www.example.jp 2 2 /a=failed timeout /b=refused", "a.example.jp 2 3", "other.org 2 4", "never.org:81 2 0",
	}
	for _, q := range []struct {
		account, parameters string
		want                []string
	}{
		{"all", "", every},
		{"all", "url=example.jp/a", []string{"www.example.jp 1 1 /a=failed timeout", "www.example.jp 2 2 /a=failed timeout"}},
		{"all", "url=www.example.jp&matchType=host&from=20261102", every[4:5]},
		{"all", "url=*.example.jp&to=20261101", every[:2]},
		{"all", "url=*.org&from=20261101&to=20261101200000", every[2:4]},
		{"all", "url=*.org&from=20261103", nil},
		{"sub", "", []string{every[1], every[2], every[5], every[6]}},
		{"sub", "url=www.example.jp&matchType=host", nil},
	} {
		for _, limit := range []string{"1", "3", "10000"} {
			if got := c.covered(t, q.account, q.parameters, limit); !slices.Equal(got, q.want) {
				t.Errorf("%s %s by %s:\n%q, want\n%q", q.account, q.parameters, limit, got, q.want)
			}
		}
	}
	for path, want := range map[string]string{
		"cursor=abc!": "cursor", "cursor=AAAA": "cursor", "limit=-1": `limit="-1"`, "limit=20000": `limit="20000"`, "filter=status:200": "filter", "url=ftp://x/": "url",
	} {
		if resp, body := c.do(t, "GET", "all", "/v1/coverage?"+path, ""); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, strings.ReplaceAll(want, `"`, `\"`)) {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
	_, body := c.do(t, "POST", "all", "/v1/coverage?from=20261102", "never.org:81\nother.org/x\n")
	if strings.Count(body, `"host"`) != 2 {
		t.Errorf("of a list: %s", body)
	}
	c.takeDown(t, catalog.Tombstone{Host: "www.example.jp", URLPrefix: "http://www.example.jp/a"})
	c.takeDown(t, catalog.Tombstone{Host: "other.org", Edition: "20261101"})
	c.takeDown(t, catalog.Tombstone{Host: "a.example.jp"})
	want := []string{"www.example.jp 1 1 /b=refused", every[3], "www.example.jp 2 2 /b=refused", every[6], every[7]}
	if got := c.covered(t, "all", "", "2"); !slices.Equal(got, want) {
		t.Errorf("after take-downs:\n%q, want\n%q", got, want)
	}
}
