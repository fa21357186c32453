package archive

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// verify verifies a segment with that much of the grace: so megabytes show what holds for hundreds.
func verify(path string, grace int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = VerifySegment(f, VerifyOptions{Host: testHost, Grace: grace})
	return err
}

// Whatever a site answers, the verifier takes the segment that is made of it. Bodies for which
// there is no room are cut and marked, and have the digest of what is kept.
func TestWriterKeepsRuleOfExpansion(t *testing.T) {
	t.Parallel()
	zeros := make([]byte, 3<<20)
	sum := sha256.Sum256(zeros)
	for name, c := range map[string]struct {
		left int64 // of the grace
		cut  bool  // whether some of the records are cut
		make func(n int) *Record
	}{
		"zeros": {4 << 20, true, func(n int) *Record {
			r := page(fmt.Sprintf("/%d.bin", n), "", zeros, n)
			if n > 0 { // the digest of the whole, of which perhaps only a part is kept
				r.PayloadDigest = digestString(sum[:])
			}
			return r
		}},
		"errors": {300 << 10, true, func(n int) *Record {
			r := page(fmt.Sprintf("/%d.bin", n), "", zeros[:120<<10], n)
			r.Kind, r.HTTP = Response, []byte("HTTP/1.1 404 Not Found\r\n\r\n")
			return r
		}},
		"links": {260 << 10, false, func(n int) *Record {
			r := page("/"+strings.Repeat("a", 90)+fmt.Sprint(n), "text/html", []byte("links"), n)
			for n == 0 && len(r.Links) < 60000 {
				r.Links = append(r.Links, Link{URL: "http://b.test/" + strings.Repeat("b", 120), Kind: "a"})
			}
			return r
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "segment")
			w, err := Create(path, testHost, "zeros", WriterOptions{})
			testkit.Must(t, err)
			w.decoded = wire.Grace - c.left
			cut := 0
			for n := range 12 {
				cell, err := w.Append(c.make(n))
				testkit.Must(t, err)
				if cell.Truncated == "length" {
					cut++
				}
				if n%5 == 4 { // another writer goes on
					was := w.Written()
					testkit.Must(t, w.Close())
					w, err = Resume(path, testHost, "zeros", was, WriterOptions{})
					testkit.Must(t, err)
				}
			}
			_, err = w.Seal()
			testkit.Must(t, err)
			if err := verify(path, c.left); err != nil {
				t.Error(err)
			}
			if (cut > 0) != c.cut || cut == 12 {
				t.Errorf("%d records of 12 are cut", cut)
			}
		})
	}
}

// A writer that goes on after a crash knows what the cells before decode to.
func TestReopenKnowsExpansion(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "segment")
	w, err := Create(path, testHost, "night-1", WriterOptions{})
	testkit.Must(t, err)
	records, _ := testRecords()
	for _, r := range records {
		_, err := w.Append(r)
		testkit.Must(t, err)
	}
	testkit.Must(t, w.Close())
	again, _, err := Reopen(path, testHost, "night-1", WriterOptions{})
	testkit.Must(t, err)
	defer again.Close()
	if again.decoded != w.decoded || w.decoded < 3<<20 {
		t.Errorf("%d bytes are decoded, want %d", again.decoded, w.decoded)
	}
}

// What deflates as pages do is never cut, however much of it there is.
func TestPagesAreKeptWhole(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	w, err := Create(filepath.Join(t.TempDir(), "segment"), testHost, "pages", WriterOptions{})
	testkit.Must(t, err)
	defer w.Close()
	w.decoded = wire.Grace - 1<<20
	body := testkit.Text(8<<20, 1)
	c, err := w.Append(page("/large.html", "text/html", body, 0))
	if err != nil || c.Truncated != "" || c.BodyLen != int64(len(body)) {
		t.Errorf("%d bytes of %d are kept, truncated %q; %v", c.BodyLen, len(body), c.Truncated, err)
	}
	got := testBody(t, w, &c)
	if !bytes.Equal(got, body) {
		t.Error("the body that was stored in several goes is another")
	}
}

// testBody reads an open segment's page.
func testBody(t *testing.T, w *Writer, c *Cell) []byte {
	t.Helper()
	p, err := PageBodyOf(FileSource(w.file, 0), c)
	testkit.Must(t, err)
	r, err := p.Open(t.Context())
	testkit.Must(t, err)
	defer r.Close()
	b, err := io.ReadAll(r)
	testkit.Must(t, err)
	return b
}

// A segment that breaks the rule is refused while it is read, before all of it is decoded.
func TestVerifierStopsAtExpansion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "segment")
	w, err := Create(path, testHost, "zeros", WriterOptions{})
	testkit.Must(t, err)
	_, err = w.Append(page("/z.bin", "", make([]byte, 8<<20), 0))
	testkit.Must(t, err)
	_, err = w.Seal()
	testkit.Must(t, err)
	var ferr *FormatError
	if err := verify(path, 4<<20); !errors.As(err, &ferr) || ferr.Code != codeBombRatio {
		t.Errorf("error %v, want code %s", err, codeBombRatio)
	}
}

// deflated gives each page of records its body as another machine has deflated it.
func deflated(t *testing.T, records []*Record) {
	t.Helper()
	d, err := NewDeflater(6)
	testkit.Must(t, err)
	for _, r := range records {
		if r.Kind != Page {
			continue
		}
		body, err := io.ReadAll(r.Body)
		testkit.Must(t, err)
		var blocks bytes.Buffer
		testkit.Must(t, d.Deflate(&blocks, r.HTTP, bytes.NewReader(body)))
		r.Body, r.Deflated = bytes.NewReader(body), &Deflated{bytes.NewReader(blocks.Bytes()), int64(blocks.Len()), int64(len(body))}
	}
}

// A page that another machine has deflated is stored as the same bytes as one that the writer
// deflates.
func TestDeflatedElsewhere(t *testing.T) {
	t.Parallel()
	here, _ := testRecords()
	want, _ := seal(t, here, "s1")
	there, _ := testRecords()
	deflated(t, there)
	got, _ := seal(t, there, "s1")
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %d of pages that were deflated here, or not the same", len(got), len(want))
	}
}

// A page of which not all is stored is deflated by the writer, whatever comes with it.
func TestDeflatedAndCut(t *testing.T) {
	t.Parallel()
	write := func(elsewhere bool) Cell {
		records := []*Record{page("/long.txt", "text/plain", testkit.Text(50_000, 1), 1)}
		if elsewhere {
			deflated(t, records)
		}
		w, err := Create(filepath.Join(t.TempDir(), "s"), testHost, "s1", WriterOptions{MaxBody: 10_000})
		testkit.Must(t, err)
		defer w.Close()
		cell, err := w.Append(records[0])
		testkit.Must(t, err)
		return cell
	}
	if here, there := write(false), write(true); here != there || here.BodyLen != 10_000 || here.Truncated != "length" {
		t.Errorf("%+v\n%+v", here, there)
	}
}
