package foreign

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"net/http"
	"net/http/httptest"

	"sheaf/archive"
	"sheaf/internal/testkit"
)

// readRecord is a record of a WARC: its header, and the HTTP head in its block.
type readRecord struct {
	fields []archive.Field
	http   string
	block  string
}

func (r *readRecord) value(name string) string {
	for _, f := range r.fields {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// url returns the URL of the record, as it is stored.
func (r *readRecord) url() string {
	of := strings.Trim(r.value("WARC-Target-URI"), "<>")
	if url, err := bareURL(of); err == nil {
		return url
	}
	return of
}

// readRecords reads the records of a WARC.
func readRecords(t *testing.T, text string) (all []readRecord) {
	t.Helper()
	for text = strings.TrimLeft(text, "\r\n"); text != ""; text = strings.TrimLeft(text, "\r\n") {
		head, rest, ok := cutHead([]byte(text))
		if !ok {
			t.Fatalf("no header ends in %.200q", text)
		}
		r := readRecord{fields: headerFields(head)}
		n, err := strconv.Atoi(r.value("Content-Length"))
		testkit.Must(t, err)
		r.block = string(rest[:n])
		if http, _, ok := cutHead(rest[:n]); ok && strings.HasPrefix(r.value("Content-Type"), "application/http") {
			r.http = string(http)
		}
		all, text = append(all, r), string(rest[n:])
	}
	return all
}

// checkLossless checks that all records of a WARC are in the WARC view or beside the batch, with
// their header and their HTTP head, and that what refers to a record of the file by its ID still
// does.
func checkLossless(t *testing.T, data string, c *converted) (records int) {
	t.Helper()
	views, beside := readRecords(t, c.warc), readRecords(t, c.others)
	for _, was := range readRecords(t, data) {
		records++
		id := was.value("WARC-Record-ID")
		about := func(r readRecord) bool {
			return r.value("WARC-Record-ID") == id && was.url() == r.url()
		}
		if slices.ContainsFunc(beside, func(r readRecord) bool { return about(r) && r.block == was.block }) {
			continue
		}
		at := slices.IndexFunc(views, about)
		if at < 0 {
			t.Errorf("%s of %s is nowhere", was.value("WARC-Type"), was.value("WARC-Target-URI"))
			continue
		}
		is := views[at]
		views = slices.Delete(views, at, at+1)
		head := slices.ContainsFunc(beside, func(r readRecord) bool {
			return r.value("WARC-Refers-To") == id && r.value("Content-Type") == "application/warc" && strings.HasSuffix(r.block, was.http)
		})
		if is.http != was.http && was.http != "" && !head {
			t.Errorf("HTTP head of %s is\n%s\nwant\n%s", was.value("WARC-Target-URI"), is.http, was.http)
		}
		if head { // with the record's header
			continue
		}
		for _, f := range was.fields {
			same := slices.Contains(is.fields, f) || slices.Contains(is.fields, archive.Field{Name: "X-Original-" + f.Name, Value: f.Value}) ||
				strings.EqualFold(f.Name, "WARC-Record-ID")
			if !same {
				t.Errorf("%s has lost %s: %s; it has %q", was.value("WARC-Target-URI"), f.Name, f.Value, is.fields)
			}
		}
	}
	return records
}

// What stood in the headers of imported records is still to be had.
func TestLossless(t *testing.T) {
	t.Parallel()
	records := append(crawl("1.1"),
		rec("1.1", "response", "http://d.example.jp/exact", answer+"WARC-Concurrent-To: <urn:uuid:7>\r\nWARC-Concurrent-To: <urn:uuid:8>\r\nWARC-Warcinfo-ID: <urn:uuid:9>\r\nWARC-Page-ID: 5\r\n"+
			"WARC-Identified-Payload-Type: text/html\r\nWARC-JSON-Metadata: {\"a\": \"表\"}\r\n", "HTTP/1.1 200 Fine\r\nserver:x\r\nX-Empty:\r\nContent-length:  1\r\n\r\n1"),
		rec("1.1", "response", "http://d.example.jp/folded", answer+"WARC-Long: "+strings.Repeat("x", archive.MaxOriginal)+"\r\nWARC-Page-ID:\r\n 5\r\n", "HTTP/1.1 200 Fine\r\nA: b\r\n c\r\n\r\n1"),
	)
	data := strings.Join(records, "")
	c, err := convert(t, data, nil)
	testkit.Must(t, err)
	long := "WARC-Long: " + strings.Repeat("x", archive.MaxOriginal)
	if !strings.Contains(c.others, long+"\r\n") {
		t.Error("a field that is too long is not beside the batch")
	}
	checkLossless(t, strings.Replace(data, long+"\r\n", "", 1), c)
	if !strings.Contains(c.warc, "\r\n\r\nHTTP/1.1 200 Fine\r\nserver:x\r\nX-Empty:\r\nContent-length:  1\r\n\r\n1\r\n\r\n") {
		t.Error("a head that a segment can hold is not kept as it came")
	}
	again, err := convert(t, c.warc, nil) // what is imported once more does not change
	testkit.Must(t, err)
	checkLossless(t, c.warc, again)
	if strings.Contains(again.warc, "X-Original-X-Original") || strings.Count(again.warc, "X-Original-") != strings.Count(c.warc, "X-Original-") {
		t.Error("fields are kept twice")
	}
}

// What wget has written is still to be had.
func TestLosslessWget(t *testing.T) {
	t.Parallel()
	wget := testkit.Tool(t, "wget")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("X-Custom", "a;  b")
		if r.URL.Path != "/" {
			w.(http.Flusher).Flush() // in chunks
		}
		_, _ = io.WriteString(w, "<a href=/1.html>1</a><a href=/2.html>2</a><a href=/moved>3</a>")
	}))
	defer web.Close()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), wget, "-q", "-r", "-l", "2", "--warc-file=out", "--no-warc-compression", web.URL)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(filepath.Join(dir, "out.warc"))
	testkit.Must(t, err)
	c, err := convert(t, string(data), nil)
	testkit.Must(t, err)
	if n := checkLossless(t, string(data), c); n < 10 || c.Pages < 4 {
		t.Errorf("%d records, %+v", n, c.Result)
	}
}
