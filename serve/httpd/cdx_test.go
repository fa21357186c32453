package httpd_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/serve/records"
)

// do sends a request as a client would.
func (c *crawl) do(t *testing.T, method, account, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(account, account)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "text/plain")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(data)
}

// follow fetches the parts of an answer until there are no more.
func (c *crawl) follow(t *testing.T, q question, limit func() string) (lines []string) {
	t.Helper()
	cursor := ""
	for range 10_000 {
		values := url.Values{"fl": {"url,time,status,edition"}, "output": {"text"}, "limit": {limit()}}
		for name, all := range q.params {
			values[name] = all
		}
		if cursor != "" {
			values.Set("cursor", cursor)
		}
		method := http.MethodGet
		if q.list != "" {
			method = http.MethodPost
		}
		resp, body := c.do(t, method, q.account, "/v1/cdx?"+values.Encode(), q.list)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", values.Encode(), resp.StatusCode, body)
		}
		if body != "" {
			lines = append(lines, strings.Split(strings.TrimSuffix(body, "\n"), "\n")...)
		}
		link := resp.Header.Get("Link")
		if link == "" {
			return lines
		}
		next, err := url.Parse(link[1:strings.Index(link, ">")])
		if err != nil {
			t.Fatal(err)
		}
		cursor = next.Query().Get("cursor")
	}
	t.Fatal("an answer without end")
	return nil
}

// Every query, in parts of any size, must give what a plain search over the same records gives.
// SHEAF_TEST_QUERIES is the number of random queries.
func TestQueriesAgainstReference(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	c := newCrawl(t, 4, 400, records.Budget{Records: 1200})
	r := rand.New(rand.NewPCG(1, 9))
	questions := testkit.Size(75, 150)
	if n, err := strconv.Atoi(os.Getenv("SHEAF_TEST_QUERIES")); err == nil {
		questions = n
	}
	for n := range questions {
		switch n {
		case questions / 3:
			c.takeDown(t, catalog.Tombstone{Host: "www.example.jp", URLPrefix: "http://www.example.jp/a/"})
			c.takeDown(t, catalog.Tombstone{Host: "example.jp", Edition: "20261102"})
		case questions / 2:
			c.takeDown(t, catalog.Tombstone{Host: "a.example.jp"})
		}
		if n%25 == 10 {
			c.Index() // of what is published now; it makes no difference
		}
		q := ask(r)
		limit := func() string { return fmt.Sprint(1 + r.IntN(60)) }
		if n%3 == 0 {
			limit = func() string { return fmt.Sprint(records.MaxLimit) }
		}
		got, want := c.follow(t, q, limit), c.answer(q)
		if !slices.Equal(got, want) {
			t.Fatalf("question %d: %s %v %q\ngot %d lines, want %d; the first that differ:\n%s", n, q.account, q.params, q.list, len(got), len(want), difference(got, want))
		}
	}
}

func difference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		g, w := "", ""
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			return fmt.Sprintf("line %d\n%s\n%s", i+1, g, w)
		}
	}
	return ""
}

func TestClosestAndLast(t *testing.T) {
	c := newCrawl(t, 4, 400, records.Budget{})
	q := question{account: "all", match: keyed(func(k string) bool { return k == "jp,example)/a" })}
	all := c.answer(q)
	at := time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
	distance := func(line string) time.Duration {
		t, _ := time.Parse(time.RFC3339Nano, strings.Fields(line)[1])
		return t.Sub(at).Abs()
	}
	near := slices.Clone(all)
	slices.SortStableFunc(near, func(a, b string) int { return int(distance(a) - distance(b)) })
	const ask = "/v1/cdx?url=example.jp/a&output=text&fl=url,time,status,edition"
	for path, want := range map[string][]string{
		ask + "&closest=20261102120000&limit=1":              near[:1],
		ask + "&closest=20261102120000&limit=7&sort=closest": near[:7],
		ask + "&closest=2026110212":                          near,
		ask + "&limit=-3":                                    all[len(all)-3:],
		ask + "&limit=-100000":                               all,
	} {
		resp, body := c.do(t, "GET", "all", path, "")
		if got := strings.Split(strings.TrimSuffix(body, "\n"), "\n"); !slices.Equal(got, want) {
			t.Errorf("%s: %d\n%s\nwant\n%s", path, resp.StatusCode, body, strings.Join(want, "\n"))
		}
	}
}

func TestOutputs(t *testing.T) {
	c := newCrawl(t, 2, 200, records.Budget{})
	c.takeDown(t, catalog.Tombstone{Host: "www.example.jp", URLPrefix: "http://www.example.jp/b/"})
	_, lines := c.do(t, "GET", "all", "/v1/cdx?url=*.example.jp", "")
	seen := 0
	for line := range strings.Lines(lines) {
		key, rest, _ := strings.Cut(line, " ")
		stamp, object, _ := strings.Cut(rest, " ")
		var f struct{ URL, MIME, Status, Digest, Length, Offset, Filename string }
		if err := json.Unmarshal([]byte(object), &f); err != nil {
			t.Fatal(err)
		}
		// There must be that record at the place.
		n, _ := strconv.Atoi(f.Length)
		from, _ := strconv.Atoi(f.Offset)
		resp, data := c.do(t, "GET", "all", "/pub/"+f.Filename, "", "Range", fmt.Sprintf("bytes=%d-%d", from, from+n-1))
		record := gunzip(t, data)
		if resp.StatusCode != http.StatusPartialContent || !strings.Contains(record, "WARC-Target-URI: "+f.URL+"\r\n") || !strings.Contains(record, f.Digest) {
			t.Fatalf("%s %s: %d, not the record: %.200q", key, stamp, resp.StatusCode, record)
		}
		seen++
	}
	if q := (question{account: "all", match: below("example.jp")}); seen != len(c.answer(q)) || seen < 50 {
		t.Errorf("%d records", seen)
	}

	_, body := c.do(t, "GET", "all", "/v1/cdx?url=example.jp/a&output=json&limit=2&showResumeKey=true", "")
	var table [][]string
	if err := json.Unmarshal([]byte(body), &table); err != nil || len(table) != 5 || table[0][2] != "original" || len(table[3]) != 0 || len(table[4]) != 1 {
		t.Errorf("%v: %s", err, body)
	}
	_, body = c.do(t, "GET", "all", "/v1/cdx?url=example.jp/a&output=json&fl=timestamp&limit=1&resumeKey="+table[4][0], "")
	if err := json.Unmarshal([]byte(body), &table); err != nil || len(table) != 2 || len(table[1]) != 1 {
		t.Errorf("%v: %s", err, body)
	}
	_, body = c.do(t, "GET", "all", "/v1/cdx?url=no.example.jp/&output=json", "")
	if err := json.Unmarshal([]byte(body), &table); err != nil || len(table) != 0 {
		t.Errorf("%v: %s", err, body)
	}
	_, body = c.do(t, "GET", "all", "/v1/cdx?url=example.jp/a&output=ndjson&limit=1", "")
	var object map[string]string
	if err := json.Unmarshal([]byte(body), &object); err != nil || object["urlkey"] != "jp,example)/a" || object["filename"] == "" {
		t.Errorf("%v: %s", err, body)
	}
	resp, body := c.do(t, "GET", "all", "/v1/cdx?url=example.jp/a&output=text&limit=1", "")
	if f := strings.Fields(body); len(f) != 7 || f[0] != "jp,example)/a" || resp.Header.Get("ETag") == "" {
		t.Errorf("%v %s", resp.Header, body)
	}
	if resp, _ := c.do(t, "GET", "all", "/v1/cdx?url=example.jp/a&output=text&limit=1", "", "If-None-Match", resp.Header.Get("ETag")); resp.StatusCode != http.StatusNotModified {
		t.Errorf("the same again: %d", resp.StatusCode)
	}
}

// An error names the wrong parameter.
func TestWrongQueries(t *testing.T) {
	c := newCrawl(t, 1, 50, records.Budget{})
	_, body := c.do(t, "GET", "all", "/v1/cdx?url=*.jp&output=json&limit=1&showResumeKey=true&fl=url", "")
	var table [][]string
	if err := json.Unmarshal([]byte(body), &table); err != nil || len(table) != 4 {
		t.Fatalf("%v %s", err, body)
	}
	cursor := table[3][0]
	for path, want := range map[string]string{
		"matchType=fuzzy&url=a.jp":    `matchType="fuzzy"`,
		"matchType=host":              `matchType="host"`,
		"url=*.a.jp&matchType=prefix": `url="*.a.jp"`,
		"url=ftp://a.jp/":             `url="ftp://a.jp/"`,
		"url=*":                       "",
		"url=*.a.jp/b":                `url="*.a.jp/b"`,
		"url=*.a.jp:80":               "",
		"url=*.a.jp:81":               `url="*.a.jp:81"`,
		"url=a.jp&url=b.jp":           `url="b.jp"`,
		"from=20261":                  `from="20261"`,
		"from=20261301":               `from="20261301"`,
		"to=yesterday":                `to="yesterday"`,
		"from=2027&to=2026":           `to="2026"`,
		"filter=x:y":                  `filter="x:y"`,
		"filter=status":               `filter="status"`,
		"filter=~url:(":               `filter="~url:("`,
		"filter=url:(":                "",
		"collapse=nothing":            `collapse="nothing"`,
		"collapse=digest:0":           `collapse="digest:0"`,
		"latest=maybe":                `latest="maybe"`,
		"sort=random":                 `sort="random"`,
		"sort=reverse":                `sort="reverse"`,
		"sort=closest&url=a.jp":       `sort="closest"`,
		"closest=2026":                `closest="2026"`,
		"limit=0":                     `limit="0"`,
		"limit=1000000":               `limit="1000000"`,
		"limit=-1":                    `limit="-1"`,
		"fl=url,nothing":              `fl="url,nothing"`,
		"output=xml":                  `output="xml"`,
		"cursor=abc":                  `cursor="abc"`,
		"url=*.org&cursor=" + cursor:  `cursor="` + cursor[:20],
		"url=*.jp&filter=status:200&resumeKey=" + cursor:  "cursor",
		"url=*.jp&output=text&fl=digest&cursor=" + cursor: "",
		"nonsense=1": `nonsense="1"`,
		"url=%zz":    "%zz",
	} {
		resp, body := c.do(t, "GET", "all", "/v1/cdx?"+path, "")
		if want == "" {
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %d %s", path, resp.StatusCode, body)
			}
			continue
		}
		var p wire.Problem
		if err := json.Unmarshal([]byte(body), &p); err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(p.Detail, want) {
			t.Errorf("%s: %d %s, want 400 with %s", path, resp.StatusCode, body, want)
		}
	}
	for body, want := range map[string]string{
		"": "names no URL", "# nothing\n": "names no URL", "a.jp\nftp://b.jp/\n": "line 2",
		strings.Repeat("a", 20000): "line 1", strings.Repeat("a.jp\n", records.MaxTargets+1): "more than",
	} {
		resp, answer := c.do(t, "POST", "all", "/v1/cdx", body)
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(answer, want) {
			t.Errorf("%.30q: %d %s", body, resp.StatusCode, answer)
		}
	}
	if resp, _ := c.do(t, "GET", "nobody", "/v1/cdx?url=a.jp", ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without an account: %d", resp.StatusCode)
	}
	if resp, _ := c.do(t, "POST", "all", "/v1/cdx", "a.jp", "Content-Type", "application/json"); resp.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("a list in JSON: %d", resp.StatusCode)
	}
}
