package httpd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/internal/lease"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/reading"
	"sheaf/serve/records"
	"sheaf/serve/results"
	"sheaf/serve/servetest"
)

// makeLinks makes volumes of the latest versions of jp and the tables of their links, and has
// readers find them.
func (c *crawl) makeLinks(t *testing.T) {
	t.Helper()
	fresh := func() {
		var err error
		c.Library, err = reading.New(reading.Options{Catalog: c.Catalog, Store: c.Store, Accounts: c.Accounts, Rules: account.NewRules(c.DB, slog.New(slog.DiscardHandler)), Volume: 2 << 10})
		testkit.Must(t, err)
	}
	leases, quiet := lease.NewDB(c.DB, nil, lease.Options{}), slog.New(slog.DiscardHandler)
	fresh()
	latest := results.NewCurrentMaker(results.CurrentOptions{Tree: c.Library.Tree, Store: c.Store, Leases: leases, Domains: []string{"jp"}, Every: time.Nanosecond, Look: time.Hour, Log: quiet})
	testkit.Must(t, latest.Update(t.Context(), func(context.Context, time.Duration) error { return nil }))
	fresh()
	testkit.Must(t, results.NewLinkMaker(results.TableOptions{Tree: c.Library.Tree, Files: c.Library.Results, Records: c.Library.Records, Store: c.Store, Leases: leases, Every: time.Hour, Log: quiet}).Update(t.Context()))
	fresh()
	c.serve(t, records.Budget{})
}

// pagesOf fetches all pages of an answer, and returns what line makes of each.
func pagesOf[T any](t *testing.T, c *crawl, account, path string, of func(T) (lines []string, next string)) (all []string) {
	t.Helper()
	for cursor := ""; ; {
		resp, body := c.do(t, "GET", account, path+cursor, "")
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
		}
		var answer T
		testkit.Must(t, json.Unmarshal([]byte(body), &answer))
		lines, next := of(answer)
		all = append(all, lines...)
		if next == "" {
			return all
		}
		cursor = "&cursor=" + next
	}
}

func (c *crawl) inlinks(t *testing.T, account, query string) []string {
	t.Helper()
	return pagesOf(t, c, account, api.PathInlinks+query, func(l api.InlinkList) (lines []string, next string) {
		for _, l := range l.Links {
			lines = append(lines, strings.Join([]string{l.Source, l.Edition, l.Target, l.Kind, l.Rel, l.Anchor, fmt.Sprint(l.NoFollow)}, " "))
		}
		return lines, l.Next
	})
}

func (c *crawl) inlinkHosts(t *testing.T, account, query string) []string {
	t.Helper()
	return pagesOf(t, c, account, api.PathInlinkHosts+query, func(l api.InlinkHostList) (lines []string, next string) {
		for _, h := range l.Hosts {
			lines = append(lines, fmt.Sprintf("%s %d %d %s %s", h.Host, h.Pages, h.Links, h.Source, h.Target))
		}
		return lines, l.Next
	})
}

// TestInlinks: the service tells which pages link to a page, and which hosts to a host, by what
// pages are now, and to nobody about pages that it does not show.
func TestInlinks(t *testing.T) {
	t.Parallel()
	c := &crawl{Site: servetest.New(t, nil)}
	c.Account("all", "always", "*")
	c.Account("sub", "always", "c.example.jp")
	page := func(url string, at time.Time, links ...archive.Link) *archive.Record {
		r := servetest.Page(url, "links of "+url+strings.Repeat(" and more", 300), at)
		r.Links = links
		return r
	}
	const x, y = "http://b.example.jp/x", "http://b.example.jp/y?q=1"
	toX := archive.Link{URL: x, Kind: "a nofollow", Rel: "nofollow", Anchor: "乙の頁"}
	next := day.AddDate(0, 0, 1)
	c.Publish("20261101", map[string][]*archive.Record{
		"a.example.jp": {
			page("http://a.example.jp/1", day, toX, archive.Link{URL: "https://www.b.example.jp/x", Kind: "img"}), page("http://a.example.jp/2", day, toX),
			page("http://a.example.jp/3", day, archive.Link{URL: y, Kind: "a"}),
		},
		"b.example.jp": {page("http://b.example.jp/", day, toX)},
		"c.example.jp": {page("http://c.example.jp/", day, toX, archive.Link{URL: y, Kind: "a"})},
		"d.example.jp": {page("http://d.example.jp/", day, toX)},
		"example.com":  {page("http://example.com/", day, toX)},
	})
	c.Publish("20261102", map[string][]*archive.Record{
		"a.example.jp": {
			servetest.Again("http://a.example.jp/1", "links of http://a.example.jp/1"+strings.Repeat(" and more", 300), day, next), page("http://a.example.jp/2", next),
		},
		"d.example.jp": {servetest.Answer("http://d.example.jp/", 410, next)},
	})
	c.makeLinks(t)
	a1 := []string{"http://a.example.jp/1 20261101 " + x + " a nofollow 乙の頁 true", "http://a.example.jp/1 20261101 https://www.b.example.jp/x img   false"}
	own, cX := "http://b.example.jp/ 20261101 "+x+" a nofollow 乙の頁 true", "http://c.example.jp/ 20261101 "+x+" a nofollow 乙の頁 true"
	a3, cY := "http://a.example.jp/3 20261101 "+y+" a   false", "http://c.example.jp/ 20261101 "+y+" a   false"
	hostA, hostC := "a.example.jp 2 3 http://a.example.jp/1 "+x, "c.example.jp 1 2 http://c.example.jp/ "+x
	check := func(what string, got []string, want ...string) {
		t.Helper()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	allX := append(slices.Clone(a1), own, cX)
	check("of a page", c.inlinks(t, "all", "?url="+x), allX...)
	check("by its other address", c.inlinks(t, "all", "?url=https://www.b.example.jp:443/x%23top"), allX...)
	check("one at a time", c.inlinks(t, "all", "?limit=1&url="+x), allX...)
	check("of a site", c.inlinks(t, "all", "?limit=2&matchType=host&url=b.example.jp"), append(slices.Clone(allX), a3, cY)...)
	check("of a prefix", c.inlinks(t, "all", "?url=http://b.example.jp/y*"), a3, cY)
	check("of a page without", c.inlinks(t, "all", "?url=http://b.example.jp/"))
	check("for an account of one host", c.inlinks(t, "sub", "?url="+x), cX)
	check("hosts", c.inlinkHosts(t, "all", "?url=b.example.jp"), hostA, hostC)
	check("hosts, one at a time", c.inlinkHosts(t, "all", "?limit=1&url=http://www.b.example.jp/any"), hostA, hostC)
	check("hosts for an account of one", c.inlinkHosts(t, "sub", "?url=b.example.jp"), hostC)
	for _, query := range []string{"", "?url=*.example.jp", "?url=" + x + "&limit=0", "?url=" + x + "&cursor=bm9uZQ", "?url=" + x + "&from=2026"} {
		if resp, body := c.do(t, "GET", "all", api.PathInlinks+query, ""); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, resp.StatusCode, body)
		}
	}
	c.tablesOfLinks(t)

	c.takeDown(t, catalog.Tombstone{Host: "a.example.jp", URLPrefix: "http://a.example.jp/1", Reason: "asked", By: "op"})
	for _, got := range [][]string{c.inlinks(t, "all", "?url="+x), c.inlinkHosts(t, "all", "?url=b.example.jp")} {
		if text := strings.Join(got, "\n"); strings.Contains(text, "a.example.jp/1") || strings.Contains(text, "a.example.jp 2") {
			t.Errorf("of a page that is taken down is told\n%s", text)
		}
	}
	c.makeLinks(t)
	check("after a take-down", c.inlinks(t, "all", "?url="+x), own, cX)
	check("hosts after a take-down", c.inlinkHosts(t, "all", "?url=b.example.jp"), "a.example.jp 1 1 http://a.example.jp/3 "+y, hostC)
	c.takeDown(t, catalog.Tombstone{Host: "b.example.jp", URLPrefix: x, Reason: "asked", By: "op"})
	c.makeLinks(t)
	check("of a page that is taken down", c.inlinks(t, "all", "?url="+x))
	check("of another page of its site", c.inlinks(t, "all", "?url="+y), a3, cY)
	c.takeDown(t, catalog.Tombstone{Host: "b.example.jp", Reason: "asked", By: "op"})
	c.makeLinks(t)
	check("of a host that is taken down", c.inlinks(t, "all", "?url="+y))
	check("hosts of a host that is taken down", c.inlinkHosts(t, "all", "?url=b.example.jp"))
}

// tablesOfLinks compares the tables in the tree: the same links in two orders.
func (c *crawl) tablesOfLinks(t *testing.T) {
	t.Helper()
	type row struct {
		Target string `parquet:"target_surtkey"`
		Source string `parquet:"source_surtkey"`
		Anchor string `parquet:"anchor_text,optional"`
	}
	all := make(map[string][]row)
	for n, err := range c.Library.Tree.List(t.Context(), c.all(), "/current/20261102/jp") {
		testkit.Must(t, err)
		_, name, _ := strings.Cut(n.Name, ".")
		if name != api.TableOfLinks && name != api.TableOfInlinks {
			continue
		}
		body := c.file(t, "/current/20261102/jp/"+n.Name)
		rows, err := parquet.Read[row](strings.NewReader(string(body)), int64(len(body)))
		testkit.Must(t, err)
		byTarget := func(a, b row) int { return strings.Compare(a.Target+"\t"+a.Source, b.Target+"\t"+b.Source) }
		if name == api.TableOfInlinks && !slices.IsSortedFunc(rows, byTarget) {
			t.Errorf("%s is not in the order of its targets: %v", n.Name, rows)
		}
		all[name] = append(all[name], rows...)
		if manifest := string(c.file(t, "/current/20261102/jp/MANIFEST")); !strings.Contains(manifest, n.Name) {
			t.Errorf("the MANIFEST does not name %s", n.Name)
		}
	}
	for _, rows := range all {
		slices.SortFunc(rows, func(a, b row) int {
			return strings.Compare(a.Source+"\t"+a.Target+"\t"+a.Anchor, b.Source+"\t"+b.Target+"\t"+b.Anchor)
		})
	}
	if links := all[api.TableOfLinks]; len(links) != 6 || !slices.Equal(links, all[api.TableOfInlinks]) {
		t.Errorf("links %v, and by target %v", links, all[api.TableOfInlinks])
	}
}

func (c *crawl) all() *account.Account { return &account.Account{Name: "all", Domains: []string{"*"}} }

// file returns a file of the tree.
func (c *crawl) file(t *testing.T, path string) []byte {
	t.Helper()
	f, err := c.Library.Tree.Open(t.Context(), c.all(), path)
	testkit.Must(t, err)
	defer f.Close()
	return servetest.ReadFile(t, f)
}
