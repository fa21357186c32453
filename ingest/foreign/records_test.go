package foreign

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sheaf/archive"
	"sheaf/internal/testkit"
)

// The head of an answer ends at its first empty line, however its lines end, and its status line is
// read as browsers read it. A page is whole, and of the type that its head says.
func TestHeadsOfAnyKind(t *testing.T) {
	t.Parallel()
	const body = "<p>first</p>\r\n\r\n<p>second</p>\n\n<p>third</p>"
	const field = "Content-Type: text/html"
	var records []string
	heads := []string{
		"HTTP/1.1 200 OK\r\n" + field + "\r\n\r\n", "HTTP/1.1 200 OK\n" + field + "\n\n", "HTTP/1.1 200 OK\r\n" + field + "\n\n",
		"HTTP/1.1 200 OK\r\n" + field + "\n\r\n", "HTTP/1.1 200 OK\r\n" + field + "\r\n\n", "HTTP/1.1 200 OK\n" + field + "\n\r\n",
		"HTTP/1.0  200  OK\r\n" + field + "\r\n\r\n", "HTTP/1.1\t200\tOK\r\n" + field + "\r\n\r\n", "http/1.1 200 ok\r\n" + field + "\r\n\r\n",
		"HTTP/1.1 200OK\r\n" + field + "\r\n\r\n", "HTTP/1.1 200\r\n" + field + "\r\n\r\n", "HTTP/1.1 200 \r\n" + field + "\r\n\r\n", "HTTP/2 200\r\n" + field + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nP3P : x\r\nContent-Type :\t text/html\r\nno colon\r\n\r\n",
	}
	for i, head := range heads {
		records = append(records, rec("1.0", "response", fmt.Sprintf("http://a.example.jp/%d", i), answer, head+body))
	}
	data := strings.Join(records, "")
	c, err := convert(t, data, nil)
	testkit.Must(t, err)
	for i, cell := range c.cells {
		if cell.Kind != archive.Page || cell.Status != 200 || cell.MIME != "text/html" || c.pages[cell.URL] != body {
			t.Errorf("%q: %v %d %s %q", heads[i], cell.Kind, cell.Status, cell.MIME, c.pages[cell.URL])
		}
	}
	if len(c.cells) != len(heads) || c.Aside.Lost > 0 {
		t.Errorf("%d pages of %d, %+v", len(c.cells), len(heads), c.Aside)
	}
	checkLossless(t, data, c)
}

// A date that is less precise than a second is its beginning.
func TestDatesOfAnyPrecision(t *testing.T) {
	t.Parallel()
	for date, want := range map[string]string{
		"2020": "2020-01-01T00:00:00Z", "2020-05": "2020-05-01T00:00:00Z", "2020-05-06": "2020-05-06T00:00:00Z", "2020-05-06T07:08Z": "2020-05-06T07:08:00Z",
		"2020-05-06T07:08:09.123456789Z": "2020-05-06T07:08:09.123456789Z", "2020-05-06T07:08:09+09:00": "2020-05-05T22:08:09Z", "2020-05-06t07:08:09z": "2020-05-06T07:08:09Z",
		"20200506070809": "2020-05-06T07:08:09Z",
	} {
		data := strings.Replace(rec("1.1", "response", "http://a.example.jp/", answer, "HTTP/1.1 200 OK\r\n\r\n1"), "2009-03-01T12:00:00Z", date, 1)
		c, err := convert(t, data, nil)
		testkit.Must(t, err)
		if c.Pages != 1 || !strings.Contains(c.warc, "\r\nWARC-Date: "+want+"\r\n") {
			t.Errorf("%s: want %s in\n%s", date, want, c.warc)
		}
		checkLossless(t, data, c)
	}
}

// A user and a final point in a URL name no other page.
func TestUserAndFinalPoint(t *testing.T) {
	t.Parallel()
	const page = "http://a.example.jp/x"
	for _, url := range []string{"http://u:p@a.example.jp/x", "http://a.example.jp./x", "http://u@A.example.jp.:80/x"} {
		data := rec("1.0", "response", url, answer+"WARC-Payload-Digest: sha1:X\r\n", "HTTP/1.1 200 OK\r\n\r\n1") +
			rec("1.0", "revisit", "http://a.example.jp/y", answer+"WARC-Payload-Digest: sha1:X\r\nWARC-Refers-To-Target-URI: "+url+"\r\n", "HTTP/1.1 200 OK\r\n\r\n")
		c, err := convert(t, data, nil)
		testkit.Must(t, err)
		if c.pages[page] != "1" || c.Revisits != 1 || c.cells[1].RefersTo != page || c.cells[1].Digest != c.cells[0].Digest {
			t.Errorf("%s: %+v", url, c.cells)
		}
		checkLossless(t, data, c)
	}
}

// A record at whose address a reader finds nothing is named, with its place and the reason.
func TestAside(t *testing.T) {
	t.Parallel()
	ok := "HTTP/1.1 200 OK\r\n\r\n1"
	nowhere := []string{
		rec("1.0", "response", "ftp://a.example.jp/x", answer, ok), rec("1.0", "response", "http://a b/x", answer, ok), rec("1.0", "response", "a.example.jp/x", answer, ok),
		rec("1.0", "response", "http://a.example.jp/1", answer, "no head"), rec("1.0", "response", "http://a.example.jp/2", "Content-Type: text/html\r\n", "<p>"),
		strings.Replace(rec("1.0", "response", "http://a.example.jp/3", answer, ok), "2009-03-01T12:00:00Z", "yesterday", 1),
		rec("1.1", "continuation", "http://a.example.jp/4", "WARC-Segment-Number: 2\r\n", "rest"), rec("1.0", "resource", "http://a.example.jp:99999999/", "", "x"),
	}
	fine := append(crawl("1.0"), rec("1.0", "resource", "urn:text:http://a.example.jp/", "", "x"), rec("1.0", "resource", "metadata://wget/log", "", "x"),
		rec("1.0", "response", "http://a.example.jp/untyped", "", ok), rec("1.1", "response", "http://a.example.jp/4", answer+"WARC-Segment-Number: 1\r\n", ok))
	for form, data := range map[string]string{"plain": strings.Join(append(fine, nowhere...), ""), "gzip": gz(append(fine, nowhere...)...)} {
		for _, lenient := range []bool{false, true} {
			c, err := convertAs(t, data, Options{Lenient: lenient})
			testkit.Must(t, err)
			if c.Aside.Lost != int64(len(nowhere)) || len(c.Aside.Losses) != len(nowhere) || c.Lost > 0 {
				t.Fatalf("%s: %+v", form, c.Aside)
			}
			packed := func(records ...string) int64 {
				if form == "gzip" && lenient { // the place in the file as it came
					return int64(len(gz(records...)))
				}
				return int64(len(strings.Join(records, "")))
			}
			at := packed(fine...)
			for i, l := range c.Aside.Losses {
				if l.Offset+l.Within != at || l.URL != readRecords(t, nowhere[i])[0].value("WARC-Target-URI") || l.Detail == "" || l.Reason == "" {
					t.Errorf("%s: %+v, want one at %d", form, l, at)
				}
				at += packed(nowhere[i])
			}
			for _, cell := range c.cells {
				if cell.URL == "http://a.example.jp/4" && cell.Truncated != "unspecified" {
					t.Errorf("a segment of a record is whole: %+v", cell)
				}
			}
			if c.pages["http://a.example.jp/untyped"] != "1" {
				t.Error("a response that does not tell the type of its block is no page")
			}
		}
	}
}

// A revisit keeps its own head and refers to any answer. Its head says nothing of codings that the
// body to which it refers has no more, and no length of the body that was sent.
func TestRevisitsKeepTheirHeads(t *testing.T) {
	t.Parallel()
	const moved, coded = "HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 30\r\nA: b\r\n\r\n"
	profile := answer + "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\nWARC-Payload-Digest: sha1:P\r\nWARC-Refers-To-Target-URI: http://a.example.jp/first\r\n"
	withBody := rec("1.1", "revisit", "http://a.example.jp/body", profile, "HTTP/1.1 200 OK\r\n\r\nbody")
	data := rec("1.1", "response", "http://a.example.jp/first", answer+"WARC-Payload-Digest: sha1:P\r\n", "HTTP/1.1 301 Moved\r\nLocation: /y\r\n\r\n<h1>moved") +
		rec("1.1", "revisit", "http://a.example.jp/moved", profile, moved) + rec("1.1", "revisit", "http://a.example.jp/coded", profile, coded) + withBody
	c, err := convert(t, data, nil)
	testkit.Must(t, err)
	records := readRecords(t, c.warc)
	if len(c.cells) != 4 || c.Revisits != 3 || records[2].http != moved || strings.Contains(records[3].http, "\nContent-") || !strings.Contains(records[3].http, "\nA: b\r\n") {
		t.Errorf("%+v\n%q", c.cells, records)
	}
	for _, cell := range c.cells[1:] {
		if cell.RefersTo != c.cells[0].URL || cell.Digest != c.cells[0].Digest || !cell.RefersDate.Equal(c.cells[0].Time) {
			t.Errorf("%s refers to %s %s, want %s", cell.URL, cell.RefersTo, cell.Digest, c.cells[0].Digest)
		}
	}
	if c.cells[1].Status != 301 || !strings.Contains(c.others, withBody) {
		t.Errorf("status %d; others %q", c.cells[1].Status, c.others)
	}
	checkLossless(t, data, c)
}

// An answer to a request for a range is the page if it has all of it, and no page if it has a part.
func TestRanges(t *testing.T) {
	t.Parallel()
	for of, kind := range map[string]archive.Kind{"bytes 0-3/4": archive.Page, "Bytes 0-3/4": archive.Page, "bytes 0-3/5": archive.Response, "bytes 1-4/5": archive.Response, "bytes 0-3/*": archive.Response, "": archive.Response} {
		c, err := convert(t, rec("1.0", "response", "http://a.example.jp/film", answer, "HTTP/1.1 206 Partial Content\r\nContent-Range: "+of+"\r\n\r\nfilm"), nil)
		testkit.Must(t, err)
		if len(c.cells) != 1 || c.cells[0].Kind != kind || c.cells[0].Status != 206 {
			t.Errorf("%q: %+v", of, c.cells)
		}
	}
}

// Large parts are kept whole, as files that neither stand for the page nor overwrite one another.
// The WARC file has their records as they were.
func TestLargeParts(t *testing.T) {
	t.Parallel()
	const size = 400 << 10
	film := noise(3 * size)
	var data string
	for first := 0; first < len(film); first += size {
		head := fmt.Sprintf("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes %d-%d/%d\r\nContent-Length: %d\r\n\r\n", first, first+size-1, len(film), size)
		data += rec("1.1", "response", "http://a.example.jp/film.mp4", answer, head+film[first:first+size])
	}
	c, err := convert(t, data, nil)
	testkit.Must(t, err)
	var got string
	names := make(map[string]bool)
	for i, r := range readRecords(t, c.warc)[1:] {
		names[c.cells[i].Name] = true
		if c.cells[i].Kind != archive.Partial || c.cells[i].Truncated != "" || !strings.HasPrefix(r.http, "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes ") {
			t.Errorf("%+v: %.80q", c.cells[i], r.http)
		}
		got += strings.TrimPrefix(r.block, r.http)
	}
	if got != film || len(names) != 3 || names["a.example.jp/film.mp4"] || c.Pages != 0 || c.Responses != 3 || c.others != "" {
		t.Errorf("%d of %d bytes, files %v, %+v, %d bytes apart", len(got), len(film), names, c.Result, len(c.others))
	}
	checkLossless(t, data, c)
}

// Of several answers with one digest, a revisit refers to the page whose body is whole: to no error
// page of the same bytes, and to nothing that broke off.
func TestRevisitsReferToWholePages(t *testing.T) {
	t.Parallel()
	const url, digest = "http://a.example.jp/", answer + "WARC-Payload-Digest: sha1:P\r\n"
	at := func(minute int, record string) string {
		return strings.Replace(record, "T12:00:00Z", fmt.Sprintf("T12:%02d:00Z", minute), 1)
	}
	others := map[string]string{
		"an error page": rec("1.1", "response", url, digest, "HTTP/1.1 404 Not Found\r\n\r\npage"),
		"a cut page":    rec("1.1", "response", url, digest+"WARC-Truncated: disconnect\r\n", "HTTP/1.1 200 OK\r\n\r\npage"),
		"a part":        rec("1.1", "response", url, digest, "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-3/9\r\n\r\npage"),
	}
	page := rec("1.1", "response", url, digest, "HTTP/1.1 200 OK\r\n\r\npage")
	revisit := rec("1.1", "revisit", url, digest, "HTTP/1.1 200 OK\r\n\r\n")
	for name, other := range others {
		for _, data := range []string{at(1, page) + at(2, other), at(1, other) + at(2, page)} {
			c, err := convert(t, data+at(3, revisit), nil)
			testkit.Must(t, err)
			whole := slices.IndexFunc(c.cells, func(c archive.Cell) bool { return c.Kind == archive.Page && c.Truncated == "" })
			if got := c.cells[2]; got.Kind != archive.Revisit || !got.RefersDate.Equal(c.cells[whole].Time) {
				t.Errorf("%s: the revisit refers to %v, want %v", name, got.RefersDate, c.cells[whole].Time)
			}
		}
	}
}
