package httpd_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/text/encoding/htmlindex"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/serve/records"
	"sheaf/serve/results"
	"sheaf/serve/servetest"
)

// tableRow has some columns of the table of records.
type tableRow struct {
	Key      string `parquet:"url_surtkey"`
	URL      string `parquet:"url"`
	Host     string `parquet:"url_host_name"`
	TLD      string `parquet:"url_host_tld,optional"`
	Domain   string `parquet:"url_host_registered_domain,optional"`
	Protocol string `parquet:"url_protocol"`
	Port     int32  `parquet:"url_port,optional"`
	Path     string `parquet:"url_path,optional"`
	Query    string `parquet:"url_query,optional"`
	Time     int64  `parquet:"fetch_time,timestamp(microsecond)"`
	Status   int32  `parquet:"fetch_status"`
	Digest   string `parquet:"content_digest,optional"`
	MIME     string `parquet:"content_mime_type,optional"`
	Filename string `parquet:"warc_filename"`
	Offset   int64  `parquet:"warc_record_offset"`
	Length   int64  `parquet:"warc_record_length"`
	Edition  string `parquet:"edition"`
	Kind     string `parquet:"kind"`
}

// line is the row as told.line has it.
func (r tableRow) line() string {
	return fmt.Sprintf("%s %s %d %s", r.URL, time.UnixMicro(r.Time).UTC().Format(time.RFC3339Nano), r.Status, r.Edition)
}

func rowsOf(t *testing.T, body string) []tableRow {
	t.Helper()
	rows, err := parquet.Read[tableRow](strings.NewReader(body), int64(len(body)))
	testkit.Must(t, err)
	return rows
}

func linesOf(rows []tableRow) (lines []string) {
	for _, r := range rows {
		lines = append(lines, r.line())
	}
	slices.Sort(lines)
	return lines
}

// A table has what the query finds within the account's scope, and each row says where the record
// can be fetched.
func TestTableOfRecords(t *testing.T) {
	testkit.Slow(t)
	c := newCrawl(t, 3, 300, records.Budget{})
	c.Index()
	for _, q := range []struct {
		account, parameters string
		match               func(told) bool
	}{
		{"all", "", func(told) bool { return true }},
		{"all", "?edition=20261102", func(r told) bool { return r.edition == "20261102" }},
		{"all", "?edition=20261102&url=*.example.jp&filter=status:200", func(r told) bool {
			return r.edition == "20261102" && r.status == 200 && (strings.HasSuffix(r.host, ".example.jp") || strings.Contains("."+r.host, ".example.jp"))
		}},
		{"sub", "?edition=20261101", func(r told) bool { return r.edition == "20261101" }},
		{"all", "?edition=19990101", func(told) bool { return false }},
	} {
		resp, body := c.do(t, "GET", q.account, "/v1/tables/records.parquet"+q.parameters, "")
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/vnd.apache.parquet" {
			t.Fatalf("%s: %d %v %.200s", q.parameters, resp.StatusCode, resp.Header, body)
		}
		want := c.answer(question{account: q.account, match: q.match})
		slices.Sort(want)
		if got := linesOf(rowsOf(t, body)); !slices.Equal(got, want) {
			t.Errorf("%s %s: %d rows, want %d\n%s", q.account, q.parameters, len(got), len(want), difference(got, want))
		}
		again, part := c.do(t, "GET", q.account, "/v1/tables/records.parquet"+q.parameters, "", "Range", "bytes=-8", "If-Range", resp.Header.Get("ETag"))
		if again.StatusCode != http.StatusPartialContent || part != body[len(body)-8:] {
			t.Errorf("%s: range: %d, %d bytes", q.parameters, again.StatusCode, len(part))
		}
	}
	_, body := c.do(t, "GET", "all", "/v1/tables/records.parquet?edition=20261102&url=*.example.jp", "")
	for i, r := range rowsOf(t, body) {
		if r.TLD != "jp" || r.Domain != "example.jp" || r.Protocol != "http" || r.Host+portPart(r.Port) != strings.Split(r.URL, "/")[2] || "/"+strings.SplitN(r.URL, "/", 4)[3] != r.Path+queryPart(r.Query) {
			t.Errorf("%+v", r)
		}
		if i%10 > 0 {
			continue
		}
		resp, record := c.do(t, "GET", "all", api.PathTree+r.Filename, "", "Range", fmt.Sprintf("bytes=%d-%d", r.Offset, r.Offset+r.Length-1))
		z, err := gzip.NewReader(strings.NewReader(record))
		testkit.Must(t, err)
		text, err := io.ReadAll(z)
		if err != nil || resp.StatusCode != http.StatusPartialContent || !bytes.Contains(text, []byte("WARC-Target-URI: "+r.URL+"\r\n")) || bytes.Count(text, []byte("WARC-Type: ")) != 1 {
			t.Errorf("%s at %d of %s: %d %v\n%.300s", r.URL, r.Offset, r.Filename, resp.StatusCode, err, text)
		}
	}
	c.takeDown(t, catalog.Tombstone{Host: "other.org"})
	c.takeDown(t, catalog.Tombstone{Host: "example.jp", URLPrefix: "http://example.jp/a"})
	_, body = c.do(t, "GET", "all", "/v1/tables/records.parquet", "")
	rows := rowsOf(t, body)
	if len(rows) == 0 || strings.Contains(body, "other.org") {
		t.Errorf("%d rows after a take-down", len(rows))
	}
	for _, r := range rows {
		if strings.HasPrefix(r.URL, "http://other.org/") || strings.HasPrefix(r.URL, "http://example.jp/a") {
			t.Errorf("taken down: %+v", r)
		}
	}
	for path, want := range map[string]int{"?originals=true": 400, "?fl=url": 400, "?limit=5": 200} {
		if resp, body := c.do(t, "GET", "all", "/v1/tables/records.parquet"+path, ""); resp.StatusCode != want || want == 200 && len(rowsOf(t, body)) != 5 {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
}

func portPart(n int32) string {
	if n == 0 {
		return ""
	}
	return ":" + strconv.Itoa(int(n))
}

func queryPart(query string) string {
	if query == "" {
		return ""
	}
	return "?" + query
}

// A table that is too large for one answer is made by a job. It stays the same file until anything
// is taken down, and leaves nothing behind.
func TestJobOfATable(t *testing.T) {
	testkit.Slow(t)
	c := newCrawl(t, 2, 700, records.Budget{Records: 1024})
	const path = "/v1/tables/records.parquet?filter=!status:999"
	if resp, _ := c.do(t, "GET", "all", path, ""); resp.StatusCode != http.StatusUnprocessableEntity {
		t.Fatalf("%d: not too much", resp.StatusCode)
	}
	at := c.post(t, "all", path, "")
	c.work(t)
	st := c.finished(t, "all", at)
	if st.State != api.JobDone || st.Result != at+"/records.parquet" {
		t.Fatalf("%+v", st)
	}
	first, body := c.do(t, "GET", "all", st.Result, "")
	want := c.answer(question{account: "all", match: func(told) bool { return true }})
	slices.Sort(want)
	if got := linesOf(rowsOf(t, body)); !slices.Equal(got, want) || st.Records != int64(len(want)) || st.Bytes != int64(len(body)) {
		t.Errorf("%d rows in %d bytes, want %d in %d (%d records)\n%s", len(got), len(body), len(want), st.Bytes, st.Records, difference(got, want))
	}
	again, rest := c.do(t, "GET", "all", st.Result, "", "Range", "bytes=1000-", "If-Range", first.Header.Get("ETag"))
	if again.StatusCode != http.StatusPartialContent || rest != body[1000:] {
		t.Errorf("resumed: %d, %d bytes", again.StatusCode, len(rest))
	}
	if resp, _ := c.do(t, "GET", "sub", st.Result, ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("another's: %d", resp.StatusCode)
	}
	c.takeDown(t, catalog.Tombstone{Host: "other.org"})
	if resp, body := c.do(t, "GET", "all", st.Result, ""); resp.StatusCode != http.StatusGone {
		t.Errorf("after a take-down in it: %d %.100q", resp.StatusCode, body)
	}
	if resp, _ := c.do(t, "DELETE", "all", at, ""); resp.StatusCode != http.StatusNoContent {
		t.Errorf("delete: %d", resp.StatusCode)
	}
	for object := range c.Store.List(t.Context(), results.JobPrefix, "") {
		t.Errorf("left in the store: %s", object.Key)
	}
}

// The table of hosts has what robots told of the hosts that the account sees, and nothing of those
// that are taken down.
func TestTableOfHosts(t *testing.T) {
	c := newCrawl(t, 0, 0, records.Budget{})
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	c.Publish("20261101", map[string][]*archive.Record{
		"www.example.jp": {servetest.Page("http://www.example.jp/", "a page", day)}, "other.org": {servetest.Page("http://other.org/", "a page", day)},
	})
	var batch string
	found, _, err := c.Library.Records.Published(t.Context(), 0, 10)
	testkit.Must(t, err)
	sizes := make(map[string]int64)
	for _, seg := range found {
		batch, sizes[seg.Host] = seg.Batch, seg.Length
	}
	c.tell(t, batch, day.Add(time.Hour),
		wire.Coverage{Host: "www.example.jp", Collected: 1, Unchanged: 3, Refused: 2, Left: 4, Later: 5, Marked: map[string]int64{"blocked": 1, "parked": 2}, Failed: map[string]int64{"dns": 1, "503": 1}},
		wire.Coverage{Host: "other.org", Collected: 1}, wire.Coverage{Host: "a.example.jp", Truncated: map[string]int64{"time": 7}})
	type hostRow struct {
		Host    string `parquet:"host"`
		Edition string `parquet:"edition"`
		Robot   string `parquet:"robot"`
		Fetched int64  `parquet:"fetched"`
		Same    int64  `parquet:"unchanged"`
		Cut     int64  `parquet:"truncated"`
		Blocked int64  `parquet:"blocked"`
		Refused int64  `parquet:"refused"`
		Failed  int64  `parquet:"failed"`
		Later   int64  `parquet:"deferred"`
		Bytes   int64  `parquet:"bytes"`

		Changed float64 `parquet:"change_rate,optional"`
	}
	www := hostRow{"www.example.jp", "20261101", "r1", 1, 3, 0, 1, 2, 2, 9, sizes["www.example.jp"], 0.25}
	a := hostRow{Host: "a.example.jp", Edition: "20261101", Robot: "r1", Cut: 7}
	other := hostRow{Host: "other.org", Edition: "20261101", Robot: "r1", Fetched: 1, Bytes: sizes["other.org"], Changed: 1}
	check := func(account, parameters string, want ...hostRow) {
		t.Helper()
		resp, body := c.do(t, "GET", account, "/v1/tables/hosts.parquet"+parameters, "")
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", parameters, resp.StatusCode, body)
		}
		rows, err := parquet.Read[hostRow](strings.NewReader(body), int64(len(body)))
		testkit.Must(t, err)
		if !slices.Equal(rows, want) {
			t.Errorf("%s %s: %+v, want %+v", account, parameters, rows, want)
		}
	}
	check("all", "", a, www, other)
	check("all", "?url=*.example.jp", a, www)
	check("all", "?from=2027")
	check("sub", "", a, other)
	c.takeDown(t, catalog.Tombstone{Host: "other.org"})
	check("all", "", a, www)
	for _, parameters := range []string{"?cursor=x", "?limit=3", "?edition=20261101"} {
		if resp, _ := c.do(t, "GET", "all", "/v1/tables/hosts.parquet"+parameters, ""); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", parameters, resp.StatusCode)
		}
	}
}

// A job's table of records says in which charset each text is written: as its header or itself
// declares, or as its bytes show. A table that is answered at once does not read the texts.
func TestCharsetsInATable(t *testing.T) {
	t.Parallel()
	c := &crawl{Site: servetest.New(t, nil)}
	c.Account("all", "always", "*")
	const text = "<title>日本語のページ</title><p>これは、ひらがなとカタカナと漢字の混ざった文章です。</p>"
	in := func(name, text string) string {
		if name == "utf-8" {
			return text
		}
		enc, err := htmlindex.Get(name)
		testkit.Must(t, err)
		text, err = enc.NewEncoder().String(text)
		testkit.Must(t, err)
		return text
	}
	var all []*archive.Record
	want := make(map[string]string)
	add := func(name string, kind archive.Kind, header, body, charset string) {
		url := "http://a.example.jp/" + name
		all = append(all, answer(kind, url, header, body, day))
		want[url] = charset
	}
	html := func(parameter string) string {
		return "HTTP/1.1 200 OK\nContent-Type: text/html" + parameter
	}
	for label, name := range map[string]string{"shift_jis": "Shift_JIS", "euc-jp": "EUC-JP", "iso-2022-jp": "ISO-2022-JP", "utf-8": "UTF-8"} {
		add("header-"+label, archive.Page, html("; charset="+label), in(label, text), name)
		add("meta-"+label, archive.Page, html(""), in(label, `<meta http-equiv="Content-Type" content="text/html; charset=`+label+`">`+text), name)
		add("neither-"+label, archive.Page, html(""), in(label, text), name)
		add("wrong-"+label, archive.Page, html("; charset="+map[bool]string{true: "euc-jp", false: "utf-8"}[label == "utf-8"]), in(label, text), name)
		add("plain-"+label, archive.Page, "HTTP/1.1 200 OK\nContent-Type: text/plain", in(label, "日本語の文章です。"), name)
		add("untyped-"+label, archive.Page, "HTTP/1.1 200 OK", in(label, "<html>"+text), name)
		add("late-"+label, archive.Page, html(""), "<!--"+strings.Repeat("-", 20<<10)+"-->"+in(label, text), name)
		add("long-"+label, archive.Page, html(""), in(label, strings.Repeat(text, 1000)), name)
		add("gone-"+label, archive.Response, "HTTP/1.1 404 Not Found\nContent-Type: text/html", in(label, text), name)
	}
	add("mark", archive.Page, html("; charset=shift_jis"), "\ufeff"+text, "UTF-8")
	add("ascii", archive.Page, html(""), "<p>ascii", "windows-1252")
	add("xml", archive.Page, "HTTP/1.1 200 OK\nContent-Type: application/rss+xml", `<?xml version="1.0"?><rss/>`, "UTF-8")
	add("cyrillic", archive.Page, html("; charset=x-mac-cyrillic"), "<p>\x80", "x-mac-cyrillic")
	add("image", archive.Page, "HTTP/1.1 200 OK\nContent-Type: image/png", "\x89PNG\r\n\x1a\n", "")
	add("untyped-image", archive.Page, "HTTP/1.1 200 OK", "\x89PNG\r\n\x1a\n", "")
	add("empty", archive.Response, "HTTP/1.1 301 Moved\nContent-Type: text/html; charset=utf-8\nLocation: /", "", "")
	c.Publish("20261101", map[string][]*archive.Record{"a.example.jp": all})
	again := servetest.Again("http://a.example.jp/ascii", "<p>ascii", day, day.AddDate(0, 0, 1))
	c.Publish("20261102", map[string][]*archive.Record{"a.example.jp": {again}})
	c.Index()
	c.serve(t, records.Budget{})
	c.work(t)
	job := c.post(t, "all", "/v1/tables/records.parquet", "")
	c.finished(t, "all", job)
	type charsetRow struct {
		URL       string  `parquet:"url"`
		Kind      string  `parquet:"kind"`
		Charset   *string `parquet:"content_charset,optional"`
		Language  string  `parquet:"language,optional"`
		Languages string  `parquet:"content_languages,optional"`
	}
	read := func(path string) []charsetRow {
		_, body := c.do(t, "GET", "all", path, "")
		rows, err := parquet.Read[charsetRow](strings.NewReader(body), int64(len(body)))
		testkit.Must(t, err)
		if len(rows) != len(all)+1 {
			t.Fatalf("%s: %d rows, want %d", path, len(rows), len(all)+1)
		}
		return rows
	}
	for _, r := range read("/v1/tables/records.parquet") {
		if r.Charset != nil {
			t.Errorf("%s: the client waited for its charset, %s", r.URL, *r.Charset)
		}
	}
	for _, r := range read(job + "/records.parquet") {
		charset, got := want[r.URL], ""
		if r.Kind == "revisit" {
			charset = ""
		}
		if r.Charset != nil {
			got = *r.Charset
		}
		if got != charset || (r.Charset == nil) != (charset == "") {
			t.Errorf("%s, a %s: %q, want %q", r.URL, r.Kind, got, charset)
		}
		if japanese := strings.Contains(r.URL, "-") && !strings.Contains(r.URL, "plain") && !strings.Contains(r.URL, "image") || strings.HasSuffix(r.URL, "mark"); r.Language == "ja" != japanese || r.Languages == "jpn" != japanese {
			t.Errorf("%s is in %q, %q", r.URL, r.Language, r.Languages)
		}
	}
}

// A table of links has the links of the records that the query finds and the account sees.
func TestTableOfLinks(t *testing.T) {
	t.Parallel()
	c := &crawl{Site: servetest.New(t, nil)}
	c.Account("all", "always", "*")
	c.Account("sub", "always", "a.example.jp")
	page := func(url string, at time.Time, links ...archive.Link) *archive.Record {
		r := servetest.Page(url, "links of "+url, at)
		r.Links = links
		return r
	}
	top, deep := archive.Link{URL: "http://b.example.jp:8080/", Kind: "a nofollow", Rel: "nofollow ugc", Anchor: "隣の頁"}, archive.Link{URL: "https://www.other.co.uk/x?y", Kind: "img"}
	c.Publish("20261101", map[string][]*archive.Record{
		"a.example.jp": {page("http://a.example.jp/1", day, top, deep), page("http://a.example.jp/2", day, top), servetest.Page("http://a.example.jp/3", "none", day)},
		"b.example.jp": {page("http://b.example.jp/1", day, deep)},
	})
	c.Publish("20261102", map[string][]*archive.Record{"a.example.jp": {
		servetest.Again("http://a.example.jp/1", "links of http://a.example.jp/1", day, day.AddDate(0, 0, 1)),
		page("http://a.example.jp/2", day.AddDate(0, 0, 1), deep),
	}})
	c.Index()
	c.serve(t, records.Budget{})
	type linkRow struct {
		Source   string `parquet:"source_url"`
		Key      string `parquet:"source_surtkey"`
		Edition  string `parquet:"edition"`
		Target   string `parquet:"target_url"`
		Host     string `parquet:"target_host"`
		Domain   string `parquet:"target_registered_domain,optional"`
		Kind     string `parquet:"kind"`
		Rel      string `parquet:"rel,optional"`
		Anchor   string `parquet:"anchor_text,optional"`
		NoFollow bool   `parquet:"nofollow"`
	}
	row := func(n, edition string, l archive.Link) linkRow {
		kind, no := strings.CutSuffix(l.Kind, " nofollow")
		r := linkRow{"http://" + n, "", edition, l.URL, "b.example.jp:8080", "example.jp", kind, l.Rel, l.Anchor, no}
		r.Key = naming.SURT(r.Source)
		if l == deep {
			r.Host, r.Domain = "www.other.co.uk", "other.co.uk"
		}
		return r
	}
	rows := func(body string) []linkRow {
		t.Helper()
		rows, err := parquet.Read[linkRow](strings.NewReader(body), int64(len(body)))
		testkit.Must(t, err)
		slices.SortFunc(rows, func(a, b linkRow) int {
			return strings.Compare(a.Source+a.Edition+a.Target, b.Source+b.Edition+b.Target)
		})
		return rows
	}
	check := func(account, parameters string, want ...linkRow) {
		t.Helper()
		resp, body := c.do(t, "GET", account, "/v1/tables/links.parquet"+parameters, "")
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", parameters, resp.StatusCode, body)
		}
		if got := rows(body); !slices.Equal(got, want) {
			t.Errorf("%s %s: %+v, want %+v", account, parameters, got, want)
		}
	}
	all := []linkRow{
		row("a.example.jp/1", "20261101", top), row("a.example.jp/1", "20261101", deep), row("a.example.jp/2", "20261101", top), row("a.example.jp/2", "20261102", deep),
		row("b.example.jp/1", "20261101", deep),
	}
	check("all", "", all...)
	check("sub", "", all[:4]...)
	check("all", "?url=*.example.jp&edition=20261102", all[3])
	check("all", "?url=http://a.example.jp/1", all[:2]...)
	check("all", "?url=http://a.example.jp/1&edition=20261102")
	// Of the page that was found unchanged, the newest record has the links of the page.
	check("all", "?latest=true", row("a.example.jp/1", "20261102", top), row("a.example.jp/1", "20261102", deep), all[3], all[4])
	c.work(t)
	job := c.post(t, "all", "/v1/tables/links.parquet?url=*.example.jp", "")
	if st := c.finished(t, "all", job); st.State != api.JobDone || !strings.HasSuffix(st.Result, "/links.parquet") {
		t.Fatalf("%+v", st)
	} else if resp, body := c.do(t, "GET", "all", st.Result, ""); resp.StatusCode != http.StatusOK || !slices.Equal(rows(body), all) {
		t.Errorf("the job's table: %d %+v", resp.StatusCode, rows(body))
	}
	c.takeDown(t, catalog.Tombstone{Host: "a.example.jp", URLPrefix: "http://a.example.jp/1"})
	check("all", "", all[2:]...)
}
