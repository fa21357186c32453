package foreign

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha1"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// rec is a record of a foreign WARC.
func rec(version, kind, url, fields, block string) string {
	target := ""
	if url != "" {
		target = "WARC-Target-URI: " + url + "\r\n"
	}
	sum := sha1.Sum([]byte(block))
	return fmt.Sprintf("WARC/%s\r\nWARC-Type: %s\r\nWARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-%012d>\r\nWARC-Date: 2009-03-01T12:00:00Z\r\n%s%sWARC-Block-Digest: sha1:%s\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n",
		version, kind, len(url), target, fields, base32.StdEncoding.EncodeToString(sum[:]), len(block), block)
}

const answer = "Content-Type: application/http; msgtype=response\r\n"

func gz(parts ...string) string {
	var b bytes.Buffer
	for _, p := range parts {
		w := gzip.NewWriter(&b)
		io.WriteString(w, p)
		w.Close()
	}
	return b.String()
}

// crawl is what another's crawler has written: every type of record.
func crawl(version string) []string {
	page := "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=EUC-JP\r\n\r\n<p>\xc6\xfc\xcb\xdc"
	return []string{
		rec(version, "warcinfo", "", "Content-Type: application/warc-fields\r\n", "software: other\r\n"),
		rec(version, "request", "http://a.example.jp/", "Content-Type: application/http; msgtype=request\r\n", "GET / HTTP/1.1\r\nHost: a.example.jp\r\n\r\n"),
		rec(version, "response", "http://a.example.jp/", answer+"WARC-Payload-Digest: sha1:PAGE\r\nWARC-IP-Address: 192.0.2.7\r\n", page),
		rec(version, "metadata", "http://a.example.jp/", "Content-Type: application/warc-fields\r\n", "fetchTimeMs: 12\r\n"),
		rec(version, "response", "http://b.example.jp/chunked", answer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\nContent-Type: text/plain\r\n\r\n"+chunks(gz("in chunks"))),
		rec(version, "response", "http://b.example.jp/dechunked", answer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/plain\r\n\r\nno longer in chunks"),
		rec(version, "response", "http://b.example.jp/moved", answer, "HTTP/1.1 301 Moved\nLocation: /new\n\n"),
		rec(version, "revisit", "http://a.example.jp/", answer+"WARC-Profile: http://netpreserve.org/warc/"+version+"/revisit/identical-payload-digest\r\nWARC-Payload-Digest: sha1:PAGE\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"),
		rec(version, "revisit", "http://a.example.jp/other", answer+"WARC-Payload-Digest: sha1:UNKNOWN\r\n", "HTTP/1.1 200 OK\r\n\r\n"),
		rec(version, "resource", "<http://c.example.jp/file.txt>", "Content-Type: text/plain\r\n", "a resource"),
		rec(version, "response", "dns:a.example.jp", "Content-Type: text/dns\r\n", "20090301120000\na.example.jp. 60 IN A 192.0.2.7\n"),
		rec(version, "conversion", "http://a.example.jp/", "Content-Type: text/plain\r\n", "as text"),
	}
}

func chunks(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		n := min(7, len(s))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, s[:n])
		s = s[n:]
	}
	return b.String() + "0\r\n\r\n"
}

type converted struct {
	*Result
	batch  []byte
	others string
	packed int64             // bytes of others, in gzip
	pages  map[string]string // by URL
	cells  []archive.Cell
	warc   string // the WARC views of all hosts
	links  string // likewise
}

// convert converts a file, checks the batch as ingest does, and reads its pages.
func convert(t testing.TB, data string, hosts HostMap) (*converted, error) {
	t.Helper()
	return convertAs(t, data, Options{Hosts: hosts})
}

func convertAs(t testing.TB, data string, opt Options) (*converted, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "foreign")
	if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out, others bytes.Buffer
	opt.Robot, opt.Dir, opt.Others = "import", t.TempDir(), &others
	res, err := Convert(context.Background(), f, &out, opt)
	if err != nil {
		return nil, err
	}
	c := &converted{Result: res, batch: out.Bytes(), packed: int64(others.Len()), pages: make(map[string]string)}
	if others.Len() > 0 {
		zr, err := gzip.NewReader(&others)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(zr)
		if err != nil {
			t.Fatal(err)
		}
		c.others = string(text)
	}
	at := int64(0)
	_, err = archive.VerifyBatch(bytes.NewReader(c.batch), archive.VerifyOptions{}, func(s *archive.Summary) error {
		src := archive.FileSource(bytes.NewReader(c.batch), at)
		x, err := archive.ReadIndexAt(t.Context(), src, s.IndexOffset, s.IndexLength)
		if err != nil {
			return err
		}
		for i := range x.Cells {
			cell := x.Cells[i]
			c.cells = append(c.cells, cell)
			if cell.Kind != archive.Page {
				continue
			}
			page, err := archive.PageBodyOf(src, &cell)
			if err != nil {
				return err
			}
			body, err := page.Open(t.Context())
			if err != nil {
				return err
			}
			text, err := io.ReadAll(body)
			if err != nil {
				return err
			}
			c.pages[cell.URL] = string(text)
		}
		for kind, text := range map[archive.ViewKind]*string{archive.WARC: &c.warc, archive.Links: &c.links} {
			v, err := archive.NewView(kind, []archive.Part{{Source: src, Index: x, Digest: s.SHA256}})
			if err != nil {
				return err
			}
			view, err := v.OpenRange(t.Context(), 0, v.Size())
			if err != nil {
				return err
			}
			zr, err := gzip.NewReader(view)
			if err != nil {
				return err
			}
			more, err := io.ReadAll(zr)
			if err != nil {
				return err
			}
			*text += string(more)
		}
		at += s.RangeSize
		return nil
	})
	if err != nil {
		t.Fatalf("what was converted is no batch: %v", err)
	}
	return c, nil
}

// TestWARC: the three ways to gzip, both versions: every record is in the batch or beside it.
func TestWARC(t *testing.T) {
	for _, version := range []string{"1.0", "1.1"} {
		records := crawl(version)
		for form, data := range map[string]string{
			"plain": strings.Join(records, ""), "one member": gz(strings.Join(records, "")), "a member a record": gz(records...),
		} {
			t.Run(version+" "+form, func(t *testing.T) {
				c, err := convert(t, data, nil)
				if err != nil {
					t.Fatal(err)
				}
				if c.Kind != WARC || c.Hosts != 3 || c.Pages != 4 || c.Responses != 1 || c.Revisits != 2 || c.Others != 5 {
					t.Errorf("%+v", c.Result)
				}
				for url, want := range map[string]string{
					"http://a.example.jp/":          "<p>\xc6\xfc\xcb\xdc",
					"http://b.example.jp/chunked":   "in chunks",
					"http://b.example.jp/dechunked": "no longer in chunks",
					"http://c.example.jp/file.txt":  "a resource",
				} {
					if c.pages[url] != want {
						t.Errorf("%s: %q, want %q", url, c.pages[url], want)
					}
				}
				for i, want := range map[int]bool{0: true, 1: true, 2: false, 3: true, 8: false, 10: true, 11: true} {
					if strings.Contains(c.others, records[i]) != want {
						t.Errorf("record %d beside the batch: %v, want %v", i, !want, want)
					}
				}
				for _, cell := range c.cells {
					if cell.Kind == archive.Revisit && (cell.URL == "http://a.example.jp/") == cell.RefersDate.IsZero() { // the other's page is not here
						t.Errorf("revisit %+v", cell)
					}
				}
				again, err := convert(t, data, nil)
				if err != nil || !bytes.Equal(again.batch, c.batch) || again.Batch != c.Batch {
					t.Errorf("the same file gave another batch: %v", err)
				}
			})
		}
	}
}

// Records beside the batch are their hosts', by URL or by the name that was looked up; what is of
// no host is that of the only one, and nobody's where there are several.
func TestWhoseOthers(t *testing.T) {
	const a = "a.example.jp"
	info := rec("1.1", "warcinfo", "", "", "software: other\r\n")
	elsewhere := rec("1.1", "request", "http://elsewhere.example.jp/", "", "GET / HTTP/1.1\r\n\r\n")
	ours := []string{rec("1.1", "request", "http://A.example.jp:80/x", "", "GET /x HTTP/1.1\r\n\r\n"), rec("1.1", "response", "dns:a.example.jp", "", "192.0.2.7\n")}
	page := rec("1.1", "response", "http://a.example.jp/", answer, "HTTP/1.1 200 OK\r\n\r\n<p>a")
	other := rec("1.1", "response", "http://b.example.jp/", answer, "HTTP/1.1 200 OK\r\n\r\n<p>b")
	for name, c := range map[string]struct {
		file []string
		want []Stretch // without places
	}{
		"one host":  {[]string{info, page, ours[0], ours[1], elsewhere}, []Stretch{{Host: a, Records: 3}, {Records: 1}}},
		"two hosts": {[]string{info, ours[0], page, elsewhere, other, ours[1]}, []Stretch{{Records: 1}, {Host: a, Records: 1}, {Records: 1}, {Host: a, Records: 1}}},
	} {
		got, err := convert(t, strings.Join(c.file, ""), nil)
		if err != nil {
			t.Fatal(err)
		}
		at := int64(0)
		for i, s := range got.OthersOf {
			if s.Offset != at || s.Size <= 0 || i >= len(c.want) || s.Host != c.want[i].Host || s.Records != c.want[i].Records {
				t.Errorf("%s: stretch %d is %+v, want %+v at %d", name, i, s, c.want, at)
			}
			at += s.Size
		}
		if len(got.OthersOf) != len(c.want) || at != got.packed {
			t.Errorf("%s: %d stretches of %d bytes, want %d of %d", name, len(got.OthersOf), at, len(c.want), got.packed)
		}
	}
}

// A file of requests or of metadata is taken: all its records are beside a batch without hosts.
func TestNoPages(t *testing.T) {
	records := crawl("1.1")
	for name, of := range map[string][]string{"requests": records[:2], "metadata": {records[0], records[3]}} {
		c, err := convert(t, strings.Join(of, ""), nil)
		testkit.Must(t, err)
		want := wire.NewBatchID("import", time.Date(2009, 3, 1, 12, 0, 1, 0, time.UTC), 0)
		if c.Hosts != 0 || len(c.cells) != 0 || c.Others != int64(len(of)) || c.others != strings.Join(of, "") || !strings.HasPrefix(string(c.Batch), strings.TrimSuffix(string(want), "0")) {
			t.Errorf("%s: %+v, %q", name, c.Result, c.others)
		}
	}
}

// Error pages are whole in the batch as far as its format has room; what it must cut is whole
// beside it.
func TestLongErrorPages(t *testing.T) {
	const head = "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n"
	var prose strings.Builder
	for i := range 1400 {
		fmt.Fprintf(&prose, "<p>Paragraph %d of %x says that nothing is here.</p>\n", i, sha1.Sum([]byte{byte(i), byte(i >> 8)}))
	}
	body := prose.String()[:60_000]
	for n, fits := range map[int]bool{20_000: true, 25_000: true, 60_000: false} {
		record := rec("1.0", "response", "http://a.example.jp/lost", answer, head+body[:n])
		c, err := convert(t, record, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.cells) != 1 || (c.cells[0].Truncated == "") != fits || strings.Contains(c.others, record) == fits || c.Others != map[bool]int64{true: 0, false: 1}[fits] {
			t.Errorf("%d bytes: truncated %q, %d records beside the batch", n, c.cells[0].Truncated, c.Others)
		}
	}
}

// tree is a tar.gz as the robots of 1999 sent them.
func tree(t testing.TB, format tar.Format, files map[string]string, names ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range names {
		h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), ModTime: time.Unix(920_000_000, 0), Format: format}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, files[name])
	}
	w.Close()
	z.Close()
	return b.String()
}

func TestTree(t *testing.T) {
	long := strings.Repeat("long/", 30) + "page.html"
	files := map[string]string{
		"www.example.jp/index.html": "<html>home", "www.example.jp/a b.html": "<html>space", "www.example.jp/\xc6\xfc.html": "\x1b$BF|\x1b(B",
		"1f3a/index.html": "<html>hashed", "1f3a/sub/index.html": "<html>hashed too", "www.example.jp/cgi-bin/s?q=1": "<html>query",
		"7e/www.other.jp_8080/x.css": "b { color: red }", "./dot.example.jp/" + long: "<html>long name",
	}
	names := []string{"www.example.jp/"}
	for name := range files {
		names = append(names, name)
	}
	c, err := convert(t, tree(t, tar.FormatGNU, files, names...), HostMap{"1f3a": "hidden.example.jp"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"http://www.example.jp/": "<html>home", "http://www.example.jp/a%20b.html": "<html>space", "http://www.example.jp/%C6%FC.html": "\x1b$BF|\x1b(B",
		"http://hidden.example.jp/": "<html>hashed", "http://hidden.example.jp/sub/": "<html>hashed too", "http://www.example.jp/cgi-bin/s?q=1": "<html>query",
		"http://www.other.jp:8080/x.css": "b { color: red }", "http://dot.example.jp/" + long: "<html>long name",
	}
	for url, body := range want {
		if c.pages[url] != body {
			t.Errorf("%s: %q, want %q", url, c.pages[url], body)
		}
	}
	if len(c.pages) != len(want) || c.Kind != Tree {
		t.Errorf("%d pages: %v", len(c.pages), c.Result)
	}
	for _, cell := range c.cells {
		if cell.Time.Unix() != 920_000_000 {
			t.Errorf("%s: time %v", cell.URL, cell.Time)
		}
		if strings.HasSuffix(cell.URL, ".css") && cell.MIME != "text/css" || strings.HasSuffix(cell.URL, ".html") && cell.MIME != "text/html" {
			t.Errorf("%s is %s", cell.URL, cell.MIME)
		}
	}
}

// Tars that follow one another in a file are all read, whichever way they were put together.
func TestTarsInOneFile(t *testing.T) {
	files := map[string]string{"a.example.jp/1.html": "<p>1", "b.example.jp/2.html": "<p>2"}
	first, second := tree(t, tar.FormatUSTAR, files, "a.example.jp/1.html"), tree(t, tar.FormatPAX, files, "b.example.jp/2.html")
	plain := func(s string) string {
		r, err := gzip.NewReader(strings.NewReader(s))
		testkit.Must(t, err)
		b, err := io.ReadAll(r)
		testkit.Must(t, err)
		return string(b)
	}
	filled := func(s string) string { return s + strings.Repeat("\x00", 10240-len(s)%10240) } // as GNU tar ends its files
	for name, data := range map[string]string{
		"members of gzip":      first + second,
		"in one member":        gz(plain(first) + plain(second)),
		"filled up with zeros": gz(filled(plain(first)) + filled(plain(second))),
		"not gzipped":          filled(plain(first)) + plain(second),
	} {
		c, err := convert(t, data, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.Pages != 2 || c.pages["http://a.example.jp/1.html"] != "<p>1" || c.pages["http://b.example.jp/2.html"] != "<p>2" {
			t.Errorf("%s: pages %q", name, c.pages)
		}
	}
	for name, data := range map[string]string{
		"text behind":          gz(plain(first) + "more"),
		"text behind zeros":    gz(filled(plain(first)) + strings.Repeat("more", 512)),
		"a WARC behind":        first + gz(crawl("1.1")...),
		"a tar not at a block": gz(plain(first) + strings.Repeat("\x00", 100) + plain(second)),
	} {
		_, err := convert(t, data, nil)
		var fault *Error
		if !errors.As(err, &fault) || fault.Reason != wire.ReasonCorruptMember || !strings.Contains(err.Error(), "behind a tar's end") {
			t.Errorf("%s: %v, want %s", name, err, wire.ReasonCorruptMember)
		}
	}
}

// TestWhatIsWrong: every fault is named with its place and a reason, and nothing is taken.
func TestWhatIsWrong(t *testing.T) {
	good := strings.Join(crawl("1.1"), "")
	large := rec("1.1", "response", "http://a.example.jp/large", answer, "HTTP/1.1 200 OK\r\n\r\n"+noise(1<<20))
	cut := func(s string, n int) string { return s[:len(s)-n] }
	flip := func(s string, n int) string { return s[:len(s)-n] + string(s[len(s)-n]^1) + s[len(s)-n+1:] }
	files := map[string]string{"www.example.jp/a.html": "a", "b/index.html": "b", "../../etc/passwd": "x", "/abs/x.html": "x"}
	for name, c := range map[string]struct {
		data   string
		reason wire.Reason
		says   string
	}{
		"cut in a block":                         {good[:len(good)-300], wire.ReasonTruncated, "ends here"},
		"cut in a header":                        {good[:40], wire.ReasonTruncated, "ends here"},
		"cut gzip":                               {gz(good)[:400], wire.ReasonTruncated, ""},
		"a record, cut 8 before the end":         {cut(gz(crawl("1.1")...), 8), wire.ReasonTruncated, "ends here"},
		"a record, cut 1 before the end":         {cut(gz(crawl("1.1")...), 1), wire.ReasonTruncated, "ends here"},
		"one member, cut 8 before the end":       {cut(gz(good), 8), wire.ReasonTruncated, "ends here"},
		"one member, cut 1 before the end":       {cut(gz(good), 1), wire.ReasonTruncated, "ends here"},
		"one large member, cut 8 before the end": {cut(gz(good+large), 8), wire.ReasonTruncated, "ends here"},
		"one large member, cut 1 before the end": {cut(gz(good+large), 1), wire.ReasonTruncated, "ends here"},
		"tree, cut 8 before the end":             {cut(tree(t, tar.FormatUSTAR, files, "www.example.jp/a.html"), 8), wire.ReasonTruncated, "ends here"},
		"tree, cut 1 before the end":             {cut(tree(t, tar.FormatUSTAR, files, "www.example.jp/a.html"), 1), wire.ReasonTruncated, "ends here"},
		"one large member, wrong sum":            {flip(gz(good+large), 8), wire.ReasonCorruptMember, "checksum"},
		"a second member cut in its header":      {gz(good) + cut(gz(""), 15), wire.ReasonTruncated, "ends here"},
		"flipped bit":                            {strings.Replace(good, "as text", "az text", 1), wire.ReasonSHAMismatch, "WARC-Block-Digest"},
		"no length":                              {"WARC/1.0\r\nWARC-Type: response\r\n\r\n", wire.ReasonCorruptMember, "Content-Length"},
		"negative length":                        {"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: -1\r\n\r\n", wire.ReasonCorruptMember, "Content-Length"},
		"another version":                        {strings.Replace(good, "WARC/1.1", "WARC/9.9", 1), wire.ReasonCorruptMember, "WARC/9.9"},
		"wrong length":                           {rec("1.0", "response", "http://a.jp/", answer, "HTTP/1.1 200 OK\r\n\r\nbody") + "rubbish\r\n", wire.ReasonCorruptMember, "rubbish"},
		"a line without end":                     {"WARC/1.0\r\n" + strings.Repeat("x", 200_000), wire.ReasonCorruptMember, "line of more than"},
		"no page at all":                         {crawl("1.0")[0], wire.ReasonForeign, "none is about a page"},
		"unknown directory":                      {tree(t, tar.FormatUSTAR, files, "www.example.jp/a.html", "b/index.html"), wire.ReasonForeign, "host map"},
		"a path that leads out":                  {tree(t, tar.FormatUSTAR, files, "../../etc/passwd"), wire.ReasonPathEscape, "path"},
		"an absolute path":                       {tree(t, tar.FormatUSTAR, files, "/abs/x.html"), wire.ReasonPathEscape, "path"},
		"unknown and cut":                        {half(tree(t, tar.FormatUSTAR, files, "b/index.html")), wire.ReasonTruncated, "ends here"},
		"cut tree":                               {tree(t, tar.FormatUSTAR, files, "www.example.jp/a.html")[:60], wire.ReasonTruncated, ""},
		"text":                                   {"<html>no archive", wire.ReasonForeign, "neither"},
		"nothing":                                {"", wire.ReasonForeign, "neither"},
	} {
		_, err := convert(t, c.data, nil)
		var fault *Error
		if !errors.As(err, &fault) || fault.Reason != c.reason || !strings.Contains(fault.Error(), c.says) || !strings.Contains(fault.Error(), "offset ") {
			t.Errorf("%s: %v, want %s: …%s…", name, err, c.reason, c.says)
		}
	}
}

// noise is text that does not deflate.
func noise(n int) string {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return string(b)
}

func half(s string) string { return s[:len(s)*2/3] }

func TestHostMap(t *testing.T) {
	m, err := ParseHostMap(strings.NewReader("# hosts\n1f3a  www.example.jp # home\na/b/ Other.Example.JP:8080\n"))
	if err != nil || m["1f3a"] != "www.example.jp" || m["a/b"] != "other.example.jp:8080" {
		t.Fatalf("%v, %v", m, err)
	}
	for _, bad := range []string{"one", "a b c", "dir not/a/host", "d h.jp\nd i.jp"} {
		if _, err := ParseHostMap(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for path, want := range map[string]string{
		"1f3a/x": "www.example.jp x", "a/b/c/d": "other.example.jp:8080 c/d", "0f/a1/www.x.jp/p/q.html": "www.x.jp p/q.html",
		"www.x.jp_81/q": "www.x.jp:81 q", "nohost/x.html": "", "x.html": "", "dir/www.x.jp/p": "",
	} {
		host, rest, ok := (&folders{hosts: []HostMap{m}}).find(path)
		if got := strings.TrimSpace(host + " " + rest); got != want || ok != (want != "") {
			t.Errorf("%s: %q %v, want %q", path, got, ok, want)
		}
	}
}

// A URL keeps its bytes, whatever their encoding, so no two pages become versions of one URL.
func TestBytesOfURLs(t *testing.T) {
	t.Parallel()
	urls := map[string]string{ // by what they are stored as
		"%93%FA%96%7B.html": "\x93\xfa\x96{.html", "%93%8C%8B%9E.html": "\x93\x8c\x8b\x9e.html", "%C2%E7%BA%E5": "\xc2\xe7\xba\xe5",
		"j%F8rgen": "j\xf8rgen", "%E6%97%A5%E6%9C%AC": "日本", "%95%5C": "\x95\x5c", "%95/": "\x95/", "q?k=%82%A0": "q?k=\x82\xa0",
	}
	const host = "http://a.example.jp/"
	warc, old := "", arcFile(false)[0]
	for _, url := range urls {
		body := "HTTP/1.0 200 OK\r\n\r\n" + url
		warc += rec("1.0", "response", host+url, answer, body)
		old += arc(host+url, "192.0.2.7", "20090301120000", "text/html", body)
	}
	for kind, data := range map[string]string{"WARC": warc, "ARC": old} {
		c, err := convert(t, data, nil)
		testkit.Must(t, err)
		if len(c.pages) != len(urls) {
			t.Errorf("%s: %d pages, want %d", kind, len(c.pages), len(urls))
		}
		for url, body := range urls {
			if got := c.pages[host+url]; got != body {
				t.Errorf("%s: %s is %q, want %q", kind, url, got, body)
			}
		}
	}
}

// A resource of the web is a page. What has another name, and what was made of a record, is kept
// beside the batch with its host and with what it refers to.
func TestResourcesAndConversions(t *testing.T) {
	t.Parallel()
	const refers = "WARC-Refers-To: <urn:uuid:00000000-0000-0000-0000-000000000019>\r\n"
	beside := []string{
		rec("1.1", "conversion", "http://a.example.jp/a.doc", refers+"Content-Type: text/plain\r\n", "as text"),
		rec("1.1", "resource", "urn:text:https://a.example.jp/?u=http://b.example.jp/", "Content-Type: text/plain\r\n"+refers, "text of a page"),
		rec("1.1", "resource", "screenshot:http://a.example.jp/", "Content-Type: image/jpeg\r\n", "\xff\xd8"),
	}
	nowhere := rec("1.1", "resource", "metadata://gnu.org/software/wget/warc/wget.log", "Content-Type: text/plain\r\n", "log")
	long := rec("1.1", "resource", "http://b.example.jp/long", "Content-Type: text/plain\r\n", noise(100_000))
	bare := rec("1.1", "resource", "http://b.example.jp/bare", "", "<title>no type</title>")
	data := rec("1.1", "resource", "http://a.example.jp/f", "Content-Type: text/csv\r\n", "a,b") + bare + strings.Join(beside, "") + long + nowhere
	got, err := convertAs(t, data, Options{MaxBody: 50_000})
	testkit.Must(t, err)
	if got.Pages != 3 || got.pages["http://a.example.jp/f"] != "a,b" || got.cells[0].MIME != "text/csv" || got.cells[1].MIME != "text/html" || got.cells[2].Truncated != "length" {
		t.Errorf("%+v", got.cells)
	}
	if want := strings.Join(beside, "") + long + nowhere; got.others != want {
		t.Errorf("others are %.500q, want %.500q", got.others, want)
	}
	var hosts []string
	for _, s := range got.OthersOf {
		hosts = append(hosts, fmt.Sprint(s.Host, " ", s.Records))
	}
	if want := []string{"a.example.jp 3", "b.example.jp 1", " 1"}; !slices.Equal(hosts, want) {
		t.Errorf("records of hosts are %q, want %q", hosts, want)
	}
}
