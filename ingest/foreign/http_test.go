package foreign

import (
	"fmt"
	"strings"
	"testing"

	"sheaf/archive"
	"sheaf/internal/testkit"
)

// A body whose coding does not end, or is damaged, is decoded as far as it goes and marked, and its
// head fits it.
func TestCodingsThatDoNotEnd(t *testing.T) {
	t.Parallel()
	var long strings.Builder
	for i := range 500 {
		fmt.Fprintf(&long, "<p>big %d %d</p>", i, i*7919%10007)
	}
	big, small := long.String(), "<p>one two three four five six</p>"
	const chunked, gzipped = "Transfer-Encoding: chunked\r\n", "Content-Encoding: gzip\r\n"
	packed := gz(big)
	damaged := packed[:len(packed)/2] + strings.Repeat("\x00", 40) + packed[len(packed)/2+40:]
	sum := packed[:len(packed)-8] + "sumsumsu"
	ch := chunks(small)
	for _, c := range []struct {
		name, fields, body string
		want               string // of which least bytes at least are there
		least              int
		truncated          string
		beside             bool
	}{
		{"whole", chunked, ch, small, len(small), "", false},
		{"cut in a chunk", chunked, ch[:30], small, 17, "disconnect", false},
		{"cut after a chunk", chunked, strings.TrimSuffix(ch, "0\r\n\r\n"), small, len(small), "disconnect", false},
		{"without the last line end", chunked, strings.TrimSuffix(ch, "\r\n"), small, len(small), "", false},
		{"LF alone", chunked, strings.ReplaceAll(ch, "\r\n", "\n"), small, len(small), "", false},
		{"damaged chunk", chunked, strings.Replace(ch, "\r\n7", "\r\nzz", 1), small, 7, "unspecified", true},
		{"not in chunks", chunked, small, small, len(small), "", false},
		{"a number", chunked, "0", "0", 1, "", false},
		{"gzip", gzipped, packed, big, len(big), "", false},
		{"gzip cut", gzipped, packed[:len(packed)/2], big, len(big) / 4, "disconnect", false},
		{"gzip cut in its header", gzipped, packed[:5], big, 0, "disconnect", false},
		{"gzip damaged", gzipped, damaged, big, len(big) / 4, "unspecified", true},
		{"gzip with a wrong sum", gzipped, sum, big, len(big), "unspecified", true},
		{"gzip in chunks, cut", chunked + gzipped, chunks(packed)[:len(packed)/2], big, len(big) / 8, "disconnect", false},
		{"gzip in transfer, cut", "Transfer-Encoding: gzip, chunked\r\n", chunks(packed)[:len(packed)/2], big, len(big) / 8, "disconnect", false},
		{"br that is none", "Content-Encoding: br\r\n", small, small, len(small), "", false},
		{"shorter than it says", "Content-Length: 99\r\n", small, small, len(small), "disconnect", false},
	} {
		data := rec("1.0", "response", "http://a.example.jp/", answer, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"+c.fields+"\r\n"+c.body)
		got, err := convert(t, data, nil)
		testkit.Must(t, err)
		body := got.pages["http://a.example.jp/"]
		if len(got.cells) != 1 || got.cells[0].Kind != archive.Page || !strings.HasPrefix(c.want, body) && c.name != "gzip damaged" ||
			len(body) < c.least || body[:c.least] != c.want[:c.least] || got.cells[0].Truncated != c.truncated {
			t.Errorf("%s: %d of %d bytes %.40q, truncated %q, want %q", c.name, len(body), len(c.want), body, got.cells[0].Truncated, c.truncated)
		}
		head := readRecords(t, got.warc)[1].http
		if strings.Contains(head, "\r\nTransfer-Encoding") || strings.Contains(head, "\r\nContent-Encoding") || !strings.Contains(head, fmt.Sprintf("\r\nContent-Length: %d\r\n", len(body))) {
			t.Errorf("%s: the head does not fit %d bytes:\n%s", c.name, len(body), head)
		}
		if got.Others != map[bool]int64{true: 1}[c.beside] || strings.Contains(got.others, data) != c.beside {
			t.Errorf("%s: %d records beside the batch", c.name, got.Others)
		}
	}
}

// An answer without body is whole, whatever length its head tells.
func TestNoBodyIsWhole(t *testing.T) {
	t.Parallel()
	const id = "WARC-Concurrent-To: <urn:uuid:00000000-0000-0000-0000-000000000020>\r\n"
	data := rec("1.1", "request", "http://a.example.jp/", id, "HEAD / HTTP/1.1\r\n\r\n") + rec("1.1", "response", "http://a.example.jp/", answer, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n") +
		rec("1.1", "response", "http://a.example.jp/304", answer, "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n")
	c, err := convert(t, data, nil)
	testkit.Must(t, err)
	for _, cell := range c.cells {
		if cell.Truncated != "" {
			t.Errorf("%s is truncated: %s", cell.URL, cell.Truncated)
		}
	}
	if len(c.cells) != 2 || !strings.Contains(c.cells[0].URL, "__wb_method=HEAD") {
		t.Errorf("%+v", c.cells)
	}
}
