package httpd_test

import (
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/webpage"
	"sheaf/internal/weburl"
	"sheaf/serve/httpd"
	"sheaf/serve/records"
	"sheaf/serve/servetest"
	"sheaf/test/operatorstest"
)

// told is what the reference knows about a record.
type told struct {
	host, url, edition string
	time               time.Time
	kind               archive.Kind
	status             int
	mime, digest       string
	order              int // of publication
}

func (r told) key() string { return naming.SURT(r.url) }

// line is a record of an answer.
func (r told) line() string {
	return fmt.Sprintf("%s %s %d %s", r.url, r.time.UTC().Format(time.RFC3339Nano), r.status, r.edition)
}

// crawl is a site with several editions of many hosts, and the records that the reference knows.
type crawl struct {
	*servetest.Site
	url     string
	records []told
}

var crawled = []string{
	"example.jp", "www.example.jp", "www2.example.jp", "a.example.jp", "a-b.example.jp", "example.jp:8080", "www.example.jp:8080",
	"examplex.jp", "example-x.jp", "sub.a.example.jp", "www.sub.a.example.jp", "ac.jp", "other.org", "192.0.2.7", "192.0.2.7:81",
}

// newCrawl publishes editions of random records. Budget limits the answers of the service.
func newCrawl(t *testing.T, editions, captures int, budget records.Budget) *crawl {
	t.Helper()
	c := &crawl{Site: servetest.New(t, nil)}
	c.Account("all", "always", "*")
	c.Account("sub", "always", "a.example.jp", "other.org", "example.jp:8080")
	r := rand.New(rand.NewPCG(7, 7))
	paths := []string{"", "a", "a/", "A", "a/b", "a/b?x=1&y=2", "a/b?y=2&x=1", "a?q", "z.html", "日本", "b/c/d", "b/c.png"}
	for e := range editions {
		day := time.Date(2026, 11, 1+e, 0, 0, 0, 0, time.UTC)
		hosts := make(map[string][]*archive.Record)
		edition := day.Format("20060102")
		var of []told
		for range captures {
			host := crawled[r.IntN(len(crawled))]
			url := "http://" + host + "/" + strings.ReplaceAll(paths[r.IntN(len(paths))], "日本", "%E6%97%A5%E6%9C%AC")
			at := day.Add(time.Duration(r.IntN(20)) * time.Hour).Add(time.Duration(r.IntN(3)) * time.Millisecond)
			body := fmt.Sprintf("body %d", r.IntN(3))
			rec := told{host: host, url: url, edition: edition, time: at, kind: archive.Page, status: 200, mime: "text/html", digest: servetest.Digest(body)}
			switch r.IntN(5) {
			case 0:
				rec.kind, rec.status, rec.mime, rec.digest = archive.Response, []int{301, 404, 503}[r.IntN(3)], "text/plain", servetest.Digest("")
				hosts[host] = append(hosts[host], servetest.Answer(url, rec.status, at))
			case 1:
				rec.kind, rec.status, rec.mime = archive.Revisit, 304, "warc/revisit"
				hosts[host] = append(hosts[host], servetest.Again(url, body, at.Add(-time.Hour), at))
			default:
				hosts[host] = append(hosts[host], servetest.Page(url, body, at))
			}
			of = append(of, rec)
		}
		slices.SortStableFunc(of, func(a, b told) int { return strings.Compare(catalog.Key(a.host), catalog.Key(b.host)) })
		c.records = append(c.records, of...)
		if got := c.Publish(edition, hosts); got != edition {
			t.Fatalf("edition %s", got)
		}
	}
	for i := range c.records {
		c.records[i].order = i
	}
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
	return c
}

// takeDown removes records from the service and from the reference.
func (c *crawl) takeDown(t *testing.T, stone catalog.Tombstone) {
	t.Helper()
	if _, err := c.Catalog.Remove(t.Context(), stone); err != nil {
		t.Fatal(err)
	}
	c.records = slices.DeleteFunc(c.records, func(r told) bool {
		return r.host == stone.Host && (stone.Edition == "" || stone.Edition == r.edition) && (stone.URLPrefix == "" || weburl.PrefixOf(stone.URLPrefix).Holds(r.url))
	})
}

// question is one query: its parameters, and what the reference does for it.
type question struct {
	params  map[string][]string
	list    string // body of a POST
	account string
	match   func(told) bool
	tree    bool // in the order of the tree, host by host
	filters []func(told) bool
	same    func(told) string // collapse
	latest  bool
	reverse bool
}

// answer finds the records by a plain search.
func (c *crawl) answer(q question) []string {
	var found []told
	for _, r := range c.records {
		ok := q.match(r) && (q.account != "sub" || inScope(r.host))
		for _, f := range q.filters {
			ok = ok && f(r)
		}
		if ok {
			found = append(found, r)
		}
	}
	slices.SortStableFunc(found, func(a, b told) int {
		order := cmp.Or(strings.Compare(a.key(), b.key()), a.time.Compare(b.time), cmp.Compare(a.order, b.order))
		if q.tree {
			order = cmp.Or(strings.Compare(catalog.Key(a.host), catalog.Key(b.host)), order)
		}
		return order
	})
	if q.reverse {
		slices.Reverse(found)
	}
	if q.latest {
		var last []told
		for i, r := range found {
			if i+1 == len(found) || found[i+1].key() != r.key() || q.tree && found[i+1].host != r.host {
				last = append(last, r)
			}
		}
		found = last
	}
	var lines []string
	for i, r := range found {
		if q.same == nil || i == 0 || q.same(found[i-1]) != q.same(r) {
			lines = append(lines, r.line())
		}
	}
	return lines
}

func inScope(host string) bool {
	name, _, _ := strings.Cut(host, ":")
	return name == "a.example.jp" || strings.HasSuffix(name, ".a.example.jp") || name == "other.org" || host == "example.jp:8080"
}

func below(name string) func(told) bool {
	return func(r told) bool {
		host, _, _ := strings.Cut(r.host, ":")
		return host == name || strings.HasSuffix(host, "."+name)
	}
}

func keyed(of func(key string) bool) func(told) bool {
	return func(r told) bool { return of(r.key()) }
}

// ask returns a random question.
func ask(r *rand.Rand) question {
	q := question{params: map[string][]string{}, account: "all"}
	set := func(name, value string) { q.params[name] = append(q.params[name], value) }
	if r.IntN(4) == 0 {
		q.account = "sub"
	}
	site := true
	switch r.IntN(8) {
	case 0:
		set("url", []string{"http://www.example.jp/a", "example.jp/A/", "https://www7.example.jp/a#x"}[r.IntN(3)])
		q.match = keyed(func(k string) bool { return k == "jp,example)/a" })
	case 1:
		set("url", "example.jp/日本")
		q.match = keyed(func(k string) bool { return k == "jp,example)/%e6%97%a5%e6%9c%ac" })
	case 2:
		if set("url", "http://example.jp/a*"); r.IntN(2) == 0 {
			q.params["url"] = []string{"http://example.jp/a"}
			set("matchType", "prefix")
		}
		q.match = keyed(func(k string) bool { return strings.HasPrefix(k, "jp,example)/a") })
	case 3:
		set("url", "example.jp/a/*")
		q.match = keyed(func(k string) bool { return strings.HasPrefix(k, "jp,example)/a/") })
	case 4:
		set("url", "www.example.jp:8080/whatever")
		set("matchType", "host")
		q.match = keyed(func(k string) bool { return strings.HasPrefix(k, "jp,example:8080)") })
	case 5:
		name := []string{"example.jp", "jp", "a.example.jp", "192.0.2.7", "nothing.jp"}[r.IntN(5)]
		if set("url", name); r.IntN(2) == 0 {
			q.params["url"] = []string{"*." + name}
		} else {
			set("matchType", "domain")
		}
		q.match, q.tree, site = below(name), true, false
	case 6:
		if r.IntN(2) == 0 {
			set("url", "*")
		}
		q.match, q.tree, site = func(told) bool { return true }, true, false
	case 7:
		// The targets of a list are in the order of the tree of their hosts.
		q.list = "# a list\nhttp://example.jp/a\nexample.jp/b*\n\nwww.example.jp/b/c.png\n"
		q.match = keyed(func(k string) bool { return k == "jp,example)/a" || strings.HasPrefix(k, "jp,example)/b") })
		site = false
	}
	if r.IntN(2) == 0 {
		from := time.Date(2026, 11, 1+r.IntN(3), r.IntN(24), 0, 0, 0, time.UTC)
		set("from", from.Format([]string{"2006010215", "20060102150405", time.RFC3339}[r.IntN(3)]))
		q.filters = append(q.filters, func(r told) bool { return !r.time.Before(from) })
	}
	if r.IntN(2) == 0 {
		to := time.Date(2026, 11, 3+r.IntN(2), 0, 0, 0, 0, time.UTC)
		set("to", to.Format("20060102"))
		q.filters = append(q.filters, func(r told) bool { return r.time.Before(to.AddDate(0, 0, 1)) })
	}
	for range r.IntN(3) {
		f := conditions[r.IntN(len(conditions))]
		set("filter", f.param)
		q.filters = append(q.filters, f.pass)
	}
	if r.IntN(4) == 0 {
		set("latest", "true")
		q.latest = true
	} else if site && r.IntN(3) == 0 {
		set("sort", "reverse")
		q.reverse = true
	}
	if r.IntN(3) == 0 {
		f := []struct {
			param string
			same  func(told) string
		}{
			{"urlkey", told.key},
			{"timestamp:8", func(r told) string { return r.time.UTC().Format("20060102") }},
			{"digest", func(r told) string { return r.digest }},
			{"statuscode:1", func(r told) string { return fmt.Sprint(r.status)[:1] }},
		}[r.IntN(4)]
		set("collapse", f.param)
		q.same = f.same
	}
	return q
}

var conditions = []struct {
	param string
	pass  func(told) bool
}{
	{"statuscode:200", func(r told) bool { return r.status == 200 }},
	{"!statuscode:200", func(r told) bool { return r.status != 200 }},
	{"=status:404", func(r told) bool { return r.status == 404 }},
	{"status:[45]..", func(r told) bool { return r.status >= 400 }},
	{"~status:3..", func(r told) bool { return r.status/100 == 3 }},
	{"!~status:3..", func(r told) bool { return r.status/100 != 3 }},
	{"mimetype:text", func(r told) bool { return strings.Contains(r.mime, "text") }},
	{"!=mime:text/html", func(r told) bool { return r.mime != "text/html" }},
	{"~original:.*[?].*", func(r told) bool { return regexp.MustCompile(`[?]`).MatchString(r.url) }},
	{"kind:revisit", func(r told) bool { return r.kind == archive.Revisit }},
}

// gunzip returns the content of a gzip member.
func gunzip(t *testing.T, data string) string {
	t.Helper()
	zr, err := gzip.NewReader(strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}
