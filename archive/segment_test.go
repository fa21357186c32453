package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"sheaf/archive/naming"
	"sheaf/internal/media"
	"sheaf/internal/testkit"
)

const testHost = "www.site.test"

var testTime = time.Date(2026, 11, 21, 2, 3, 4, 567000000, time.UTC)

func page(path, mimeType string, body []byte, n int) *Record {
	return &Record{
		Kind: Page, URL: "http://" + testHost + path, Time: testTime.Add(time.Duration(n) * time.Second), IP: "192.0.2.1",
		HTTP: fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", mimeType, len(body)),
		Body: bytes.NewReader(body),
	}
}

func noise(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// testRecords has every kind of record and the sizes at which padding changes.
func testRecords() (records []*Record, listed map[string][]byte) {
	listed = map[string][]byte{}
	add := func(path, mimeType string, body []byte) {
		r := page(path, mimeType, body, len(records))
		listed[naming.FileName(testHost, r.URL)] = body
		records = append(records, r)
	}
	add("/", "text/html; charset=Shift_JIS", []byte("<title>\x83\x65</title>"))
	for _, n := range []int{0, 1, 2, 3, 253, 254, 255, 256, 508, 509, 510, 511, 512, 513, 65535, 65536, 300 << 10} {
		add(fmt.Sprintf("/size/%d.html", n), "text/html", testkit.Text(n, uint64(n)))
	}
	add("/img/photo.jpg", "image/jpeg", noise(70000, 1))
	add("/img/large.png", "image/png", noise(600<<10, 2))
	for _, rng := range []string{"bytes 0-4999/10000", "bytes 5000-9999/10000", "Bytes 0-4999/5000"} {
		add("/img/film.mp4", "video/mp4", noise(5000, uint64(len(rng))))
		r := records[len(records)-1]
		r.HTTP = bytes.Replace(r.HTTP, []byte("200 OK\r\n"), []byte("206 Partial Content\r\nContent-Range: "+rng+"\r\n"), 1)
		if name := naming.PartName(testHost, r.URL, rng); media.IsPartial(206, rng) {
			listed[name] = listed[naming.FileName(testHost, r.URL)]
		}
	}
	add("/zeros.txt", "text/plain", make([]byte, 2<<20))
	add("/A?b=c&d", "", []byte("query"))
	add("/long/"+strings.Repeat("x", 300)+".html", "text/html", []byte("long"))
	records = append(records,
		&Record{Kind: Response, URL: "http://" + testHost + "/moved", Time: testTime, HTTP: []byte("HTTP/1.1 301 Moved\r\nLocation: /\r\n\r\n"), Body: strings.NewReader("moved")},
		&Record{Kind: Response, URL: "http://" + testHost + "/lost", Time: testTime, HTTP: []byte("HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n"), Body: bytes.NewReader(noise(100000, 3))},
		&Record{Kind: Revisit, URL: "http://" + testHost + "/same.html", Time: testTime, HTTP: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"),
			RefersDate: testTime.AddDate(0, 0, -1), PayloadDigest: digestString(make([]byte, 32))},
		&Record{Kind: Revisit, URL: "http://" + testHost + "/same.html?of=another", Time: testTime, HTTP: []byte("HTTP/1.1 200 OK\r\n\r\n"),
			RefersTo: "https://other.test/" + strings.Repeat("x", 4000), PayloadDigest: "sha1:" + strings.Repeat("A", 32)},
		&Record{Kind: Revisit, URL: "http://" + testHost + "/same.html?digest=none", Time: testTime, HTTP: []byte("HTTP/1.1 304 Same\r\n\r\n"), Profile: ServerNotModified})
	add("/last.html", "text/html", []byte("last"))
	records[0].Links = testLinks(700)
	records[0].Preferences = "content-usage=train-ai=n; robots=noindex, %83%A5"
	for _, r := range records[len(records)-6 : len(records)-3] {
		r.Preferences = "x-robots-tag=" + strings.Repeat("%22", 100) + "%"
	}
	records[len(records)-6].Links = []Link{{URL: "http://" + testHost + "/", Kind: "redirect"}}
	return records, listed
}

func testLinks(n int) (links []Link) {
	for i := range n {
		links = append(links, Link{fmt.Sprintf("https://other.test/%d?q=%d", i, i*i*i), "a nofollow", "nofollow", fmt.Sprintf("頁 %d", i)})
	}
	return links
}

// seal writes the test's records to a sealed segment.
func seal(t testing.TB, records []*Record, id string) (data []byte, x *Index) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "segment")
	w, err := Create(path, testHost, id, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if _, err := w.Append(r); err != nil {
			t.Fatalf("%s: %v", r.URL, err)
		}
	}
	if x, err = w.Seal(); err != nil {
		t.Fatal(err)
	}
	if data, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return data, x
}

func testSegment(t testing.TB) (data []byte, x *Index, listed map[string][]byte) {
	t.Helper()
	records, listed := testRecords()
	data, x = seal(t, records, "night-1")
	return data, x, listed
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func sourceOf(b []byte) Source { return FileSource(bytes.NewReader(b), 0) }

func partOf(b []byte, x *Index) Part { return Part{Source: sourceOf(b), Index: x, Digest: hexSum(b)} }

func untar(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	zr, err := gzip.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string][]byte{}
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if listed[h.Name], err = io.ReadAll(tr); err != nil {
			t.Fatalf("%s: %v", h.Name, err)
		}
	}
	if _, err := io.Copy(io.Discard, zr); err != nil {
		t.Fatal(err)
	}
	return listed
}

func viewBytes(t testing.TB, kind ViewKind, parts ...Part) []byte {
	t.Helper()
	v, err := NewView(kind, parts)
	if err != nil {
		t.Fatal(err)
	}
	return rangeBytes(t, v, 0, v.Size())
}

func rangeBytes(t testing.TB, v interface {
	OpenRange(context.Context, int64, int64) (io.ReadCloser, error)
}, off, n int64) []byte {
	t.Helper()
	rc, err := v.OpenRange(context.Background(), off, n)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	b, err := io.ReadAll(rc)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(b)) != n {
		t.Fatalf("range of %d at %d gave %d bytes", n, off, len(b))
	}
	return b
}

func sameFiles(t *testing.T, got, want map[string][]byte) {
	t.Helper()
	for name, body := range want {
		if !bytes.Equal(got[name], body) {
			t.Errorf("%s: %d bytes differ from the %d put in", name, len(got[name]), len(body))
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok && !strings.Contains(name, "/_meta/") {
			t.Errorf("%s was never put in", name)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	data, x, listed := testSegment(t)
	for kind, view := range map[string][]byte{
		"stored": data, "single": viewBytes(t, Single, partOf(data, x)), "members": viewBytes(t, Members, partOf(data, x)),
	} {
		t.Run(kind, func(t *testing.T) { sameFiles(t, untar(t, bytes.NewReader(view)), listed) })
	}
}

// A host of which nothing came may have a segment, too.
func TestSegmentWithoutCells(t *testing.T) {
	data, x := seal(t, nil, "night-1")
	s, err := VerifySegment(bytes.NewReader(data), VerifyOptions{})
	if err != nil || s.Records != 0 || x.IndexLength == 0 || s.IndexLength != x.IndexLength {
		t.Errorf("%+v with an index of %d bytes; %v", s, x.IndexLength, err)
	}
}

func TestSameRecordsSameBytes(t *testing.T) {
	one, _, _ := testSegment(t)
	records, _ := testRecords()
	for _, r := range records {
		if r.Body != nil && !strings.Contains(r.URL, "zeros") {
			r.Body = iotest.HalfReader(r.Body)
		}
	}
	if two, _ := seal(t, records, "night-1"); !bytes.Equal(one, two) {
		t.Error("the same records, read in other portions, gave other bytes")
	}
}

// unsealed returns a segment as it is before Seal: its records' cells.
func unsealed(data []byte, x *Index) []byte {
	last := &x.Cells[len(x.Cells)-1]
	return data[:last.Offset+last.Len()]
}

func TestReadIndex(t *testing.T) {
	data, x, _ := testSegment(t)
	ctx := context.Background()
	byFooter, err := ReadIndex(ctx, sourceOf(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if byFooter.Cells[0].Preferences == "" {
		t.Error("preferences are lost")
	}
	if !reflect.DeepEqual(byFooter, x) {
		t.Errorf("read by its footer, the index differs from the writer's")
	}
	unsealed := unsealed(data, x)
	scanned, err := ReadIndex(ctx, sourceOf(unsealed), int64(len(unsealed)))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(scanned.Cells, x.Cells) {
		t.Error("scanned, the cells differ from the writer's")
	}
	noWI := append(bytes.Clone(data[:x.CellsEnd+x.IndexLength]), EndMember(0, 0)...)
	if scanned, err = ReadIndex(ctx, sourceOf(noWI), int64(len(noWI))); err != nil || !reflect.DeepEqual(scanned, x) {
		t.Errorf("scanned to the index cell, the index differs from the writer's: %v", err)
	}
}

func TestVerify(t *testing.T) {
	data, x, listed := testSegment(t)
	kinds := []ViewKind{Members, Single, Files, WARC, Links}
	s, err := VerifySegment(bytes.NewReader(data), VerifyOptions{Host: testHost, Views: kinds})
	if err != nil {
		t.Fatal(err)
	}
	if int(s.Files) != len(listed) || s.Records != s.Files+5 || s.Revisits != 3 || s.Segment != "night-1" || s.Host != testHost {
		t.Errorf("summary %+v", s)
	}
	if s.SHA256 != hexSum(data) || s.Size != int64(len(data)) || s.RangeSHA256 != hexSum(data[:s.RangeSize]) {
		t.Errorf("sizes or digests are wrong: %+v", s)
	}
	if !s.First.Equal(testTime) || !s.Last.Equal(x.Cells[len(x.Cells)-1].Time) {
		t.Errorf("times %v to %v", s.First, s.Last)
	}
	for _, kind := range kinds {
		v, err := NewView(kind, []Part{partOf(data, x)})
		if err != nil {
			t.Fatal(err)
		}
		want := ViewInfo{v.Size(), hexSum(rangeBytes(t, v, 0, v.Size())), v.ETag()}
		if kind == Files {
			want.SHA256 = ""
		}
		if got := s.Views[kind]; got != want {
			t.Errorf("%s: verified as %+v, is %+v", kind, got, want)
		}
	}
	if _, err := VerifyRange(bytes.NewReader(data[:s.RangeSize]), VerifyOptions{}); err != nil {
		t.Error(err)
	}
}
