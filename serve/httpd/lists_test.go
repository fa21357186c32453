package httpd_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gorilla/mux"
	"github.com/parquet-go/parquet-go"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/internal/lease"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/serve/account"
	"sheaf/serve/httpd"
	"sheaf/serve/reading"
	"sheaf/serve/records"
	"sheaf/serve/results"
	"sheaf/serve/servetest"
	"sheaf/test/operatorstest"
)

// longList returns a list with as many pages as one query may have, of a thousand hosts.
func longList() string {
	var list strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&list, "http://www.example%d.ac.jp/dir/page%d.html?x=%d\n", i%1000, i, i)
	}
	return list.String()
}

// used returns the CPU time of this process.
func used(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	testkit.Must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The longest list of one query costs about 0.7 s of CPU time, and no more than a slow machine
// makes of that. Thirty at once do not need thirty times the memory of one: most are refused before
// they are read.
func TestLongLists(t *testing.T) {
	testkit.Slow(t)
	s := newSite(t)
	list := longList()
	for _, path := range []string{"/v1/cdx", "/v1/coverage"} {
		begun := used(t)
		resp, body := s.ask(t, "POST", path, "jp", "jp", list, "Content-Type", "text/plain")
		took := used(t) - begun
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %.200s", path, resp.Status, body)
		}
		if took > 3*time.Second && !raced {
			t.Errorf("%s took %v of CPU", path, took)
		}
		t.Logf("%s took %v of CPU", path, took)
	}

	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	statuses := make(chan int)
	for range 30 {
		go func() {
			req, _ := http.NewRequestWithContext(t.Context(), "POST", s.url+"/v1/cdx", strings.NewReader(list))
			req.SetBasicAuth("jp", "jp")
			resp, err := http.DefaultClient.Do(req)
			if err != nil { // it was turned away while it was still sending
				statuses <- http.StatusTooManyRequests
				return
			}
			resp.Body.Close()
			if resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") == "" {
				t.Error("429 says no time")
			}
			statuses <- resp.StatusCode
		}()
	}
	count := map[int]int{}
	for range 30 {
		count[testkit.Receive(t, "an answer", statuses)]++
	}
	runtime.ReadMemStats(&now)
	if more := int64(now.HeapSys-before.HeapSys) >> 20; more > 150 || count[200]+count[429] != 30 || count[200] == 0 {
		t.Errorf("thirty at once took %d MiB more of the system, answers %v", more, count)
	}
}

// A long list for which there is no place is refused before all of it is read.
func TestListsAreRefusedUnread(t *testing.T) {
	testkit.Slow(t)
	s, _ := watchSite(t)
	const header = "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Basic anA6anA=\r\nContent-Length: 1000000\r\n\r\n"
	long := strings.Repeat("http://www.waseda.ac.jp/\n", 12<<10) // what fits in memory, and more
	begin := func(path string) net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		testkit.Must(t, err)
		t.Cleanup(func() { c.Close() })
		fmt.Fprintf(c, header, path)
		go io.WriteString(c, long)
		return c
	}
	refused := make(chan *http.Response, 5)
	ask := func(path string) {
		c := begin(path)
		go func() {
			if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
				refused <- resp
			}
		}()
	}
	for range 5 { // none of which ever sends the rest: four are read, and one is refused
		ask("/v1/cdx")
	}
	testkit.Receive(t, "one of five is refused", refused)
	for _, path := range []string{"/v1/cdx", "/v1/coverage", api.PathPages + ".tar.gz"} {
		ask(path)
		resp := testkit.Receive(t, path+" is refused", refused)
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %s, %v", path, resp.Status, resp.Header)
		}
	}
}

// A list that breaks off is refused with the reason, at the paths that take one.
func TestBrokenListsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	router := mux.NewRouter()
	testkit.Must(t, httpd.Register(router, httpd.Options{Library: s.Library, Accounts: s.Accounts, Recorder: s.Log, Gate: operatorstest.Shut}))
	for _, path := range []string{api.PathCDX, api.PathCoverage} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, iotest.ErrReader(io.ErrUnexpectedEOF))
		r.SetBasicAuth("jp", "jp")
		w := httptest.NewRecorder()
		router.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "the body breaks off") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// changes fetches a page of changes. It returns the page and the target of its Link.
func (s site) changes(t *testing.T, account, path string) (page api.Page, next string) {
	t.Helper()
	resp, body := s.do(t, "GET", account, path)
	if err := json.Unmarshal(body, &page); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: %s %v %s", path, resp.Status, err, body)
	}
	next, _, ok := strings.Cut(strings.TrimPrefix(resp.Header.Get("Link"), "<"), `>; rel="next"`)
	if !ok {
		t.Fatalf("%s: Link %q", path, resp.Header.Get("Link"))
	}
	return page, next
}

func TestChanges(t *testing.T) {
	s := newSite(t)
	if _, err := s.Catalog.Remove(t.Context(), catalog.Tombstone{Host: "www.keio.ac.jp", Reason: "a letter", By: "ops"}); err != nil {
		t.Fatal(err)
	}
	var told []string
	path := api.PathChanges + "?limit=1"
	for more := true; more; {
		var page api.Page
		page, path = s.changes(t, "jp", path)
		for _, e := range page.Events {
			told = append(told, fmt.Sprint(e.Seq, e.Op, e.Edition, e.Host, len(e.Files), e.Why))
			for _, f := range e.Files {
				resp, body := s.do(t, "GET", "jp", "/pub"+e.Path+f.Name)
				if int64(len(body)) != f.Size || servetest.SHA256(body) != f.SHA256 || resp.Header.Get("ETag") != f.ETag {
					t.Errorf("%s is not what was told", f.Name)
				}
			}
		}
		more = page.More
	}
	if want := "[2put20261121www.waseda.ac.jp2 3deletewww.keio.ac.jp0takedown]"; fmt.Sprint(told) != want {
		t.Errorf("%v, want %s", told, want)
	}
	if _, body := s.do(t, "GET", "jp", api.PathChanges); strings.Contains(string(body), "letter") {
		t.Errorf("tells of reasons: %s", body)
	}
	page, _ := s.changes(t, "jp", api.PathChanges+"?since=2&domain=ac.jp&surt=cn,")
	if len(page.Events) != 1 || page.Events[0].Seq != 3 {
		t.Errorf("since 2: %+v", page)
	}
	if page, _ := s.changes(t, "shut", api.PathChanges+"?host="+host); len(page.Events) != 1 || page.Next.Since != 3 {
		t.Errorf("of one host, outside the window: %+v", page)
	}

	_, of := s.changes(t, "keio", api.PathChanges)
	for _, c := range []struct {
		path, reason string
		status       int
	}{
		{"?since=4", "future", 400},
		{"?since=-1", "bad_query", 400},
		{"?since=2026-11-21", "bad_query", 400},
		{"?limit=0", "bad_query", 400},
		{"?wait=3600", "bad_query", 400},
		{"?" + strings.Repeat("host=a&", 101), "selection", 400},
		{"?since=3&mark=0123456789abcdef", "expired", 410},
		{"?since=99&mark=0123456789abcdef", "expired", 410},
		{strings.TrimPrefix(of, api.PathChanges), "expired", 410}, // of an account that sees other hosts
	} {
		resp, body := s.do(t, "GET", "jp", api.PathChanges+c.path)
		var p wire.Problem
		if err := json.Unmarshal(body, &p); err != nil || resp.StatusCode != c.status || p.Reason != c.reason {
			t.Errorf("%.40s: %s %s", c.path, resp.Status, body)
		}
		if link := resp.Header.Get("Link"); c.status == 410 && (!strings.Contains(link, `since=0>; rel="first"`) || strings.Contains(link, "mark")) {
			t.Errorf("%s: 410 without the way back: %q", c.path, link)
		}
	}
}

// TestChangesAreWaitedFor: a request that waits is answered when there is a change, when its time
// is over, and when the service stops, but not at once.
func TestChangesAreWaitedFor(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s := newSite(t)
	stopping := make(chan struct{})
	router := mux.NewRouter()
	err := httpd.Register(router, httpd.Options{Library: s.Library, Accounts: s.Accounts, Recorder: s.Log, Stopping: stopping,
		Gate: operatorstest.Open})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(router)
	defer server.Close()
	s.url = server.URL
	wait := func(seconds int) <-chan api.Page {
		answered := make(chan api.Page, 1)
		go func() {
			page, _ := s.changes(t, "jp", fmt.Sprintf("%s?since=2&wait=%d", api.PathChanges, seconds))
			answered <- page
		}()
		return answered
	}
	begin := time.Now()
	if page := <-wait(1); len(page.Events) != 0 || time.Since(begin) < time.Second {
		t.Errorf("after %v: %+v", time.Since(begin), page)
	}
	answered := wait(300)
	select {
	case page := <-answered:
		t.Fatalf("nothing has come, but %+v", page)
	case <-time.After(100 * time.Millisecond):
	}
	s.Publish("20261122", map[string][]*archive.Record{"other.jp": {servetest.Page("http://other.jp/", "x", day)}})
	if page := <-answered; len(page.Events) != 1 || page.Events[0].Host != "other.jp" {
		t.Errorf("after the publish: %+v", page)
	}
	late := make(chan error, 1)
	go func() {
		_, err := s.Library.Changes.Wait(t.Context(), &account.Account{Domains: []string{"*"}}, api.Selection{}, api.Cursor{Since: 3}, 1, 5*time.Minute, stopping)
		late <- err
	}()
	close(stopping)
	if err := <-late; err != nil {
		t.Errorf("at the stop: %v", err)
	}
}

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
