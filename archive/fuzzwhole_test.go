package archive

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/flate"

	"sheaf/archive/naming"
)

// bounded runs f on n bytes from a stranger and fails if it allocates out of proportion: readers
// hold one cell's headers (1 MiB at most, out of 1 KiB stored), and nothing of a body.
func bounded(t *testing.T, n int, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(16<<20+4<<10*n); got > most {
		t.Errorf("%d bytes allocated for %d bytes of input, over %d", got, n, most)
	}
}

// FuzzRoundTrip writes a record that a server may have made us keep, after one of ours, and reads
// it back in every way.
func FuzzRoundTrip(f *testing.F) {
	f.Add(byte(1), "/a.html", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", []byte("<p>"), uint16(0))
	f.Add(byte(1), "/%E3%81%82?x=1", "HTTP/1.0 200\r\nCONTENT-TYPE:image/JPEG;x\r\nX: \r\n\r\n", noise(600, 1), uint16(600))
	f.Add(byte(2), "/b/", "HTTP/1.1 404 \r\n\r\n", noise(9000, 2), uint16(1))
	f.Add(byte(3), "/"+strings.Repeat("x", 300), "HTTP/1.1 304 Not\r\n\r\n", []byte{}, uint16(9))
	f.Add(byte(1), "/../\\", "HTTP/1.1 999 \x00\xff\r\n "+strings.Repeat("y", 9000)+"\r\n\r\n", make([]byte, 70000), uint16(513))
	f.Fuzz(func(t *testing.T, kind byte, path, http string, body []byte, repeat uint16) {
		if len(body)*int(repeat) < 1<<20 {
			body = bytes.Repeat(body, 1+int(repeat)%64)
		}
		r := &Record{Kind: Kind(kind % 4), URL: "http://" + testHost + path, HTTP: []byte(http), Body: bytes.NewReader(body), IP: "2001:db8::1",
			Time: testTime.Add(time.Duration(repeat) * 1234567)}
		if r.Kind == Revisit {
			r.PayloadDigest, r.RefersDate = digestString(make([]byte, 32)), testTime.Add(-time.Duration(repeat))
		}
		segment := filepath.Join(t.TempDir(), "segment")
		w, err := Create(segment, testHost, "fuzz", WriterOptions{Level: 1, MaxBody: 256 << 10})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Append(page("/first.html", "text/html", []byte("first"), 0)); err != nil {
			t.Fatal(err)
		}
		kept := true
		if _, err := w.Append(r); err != nil {
			if kept = false; !errors.Is(err, ErrRefused) {
				t.Fatal(err)
			}
		}
		x, err := w.Seal()
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(segment)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := VerifySegment(bytes.NewReader(data), VerifyOptions{Host: testHost, MaxRatio: 2000}); err != nil {
			t.Fatal(err)
		}
		listed := map[string][]byte{naming.FileName(testHost, "http://"+testHost+"/first.html"): []byte("first")}
		if kept && r.Kind == Page {
			listed[naming.FileName(testHost, r.URL)] = body[:min(len(body), 256<<10)]
		}
		agree(t, data, x, listed)
	})
}

// agree reads a verified segment by its footer and by its members, makes every view, and has other
// decoders read them.
func agree(t *testing.T, data []byte, x *Index, listed map[string][]byte) {
	t.Helper()
	read, err := ReadIndex(context.Background(), sourceOf(data), int64(len(data)))
	if err != nil || len(read.Cells) != len(x.Cells) {
		t.Fatalf("%d cells read of %d: %v", len(read.Cells), len(x.Cells), err)
	}
	cells := unsealed(data, x)
	scanned, err := ReadIndex(context.Background(), sourceOf(cells), int64(len(cells)))
	if err != nil || len(scanned.Cells) != len(x.Cells) {
		t.Fatalf("%d cells scanned of %d: %v", len(scanned.Cells), len(x.Cells), err)
	}
	for i, c := range x.Cells {
		if read.Cells[i] != c || scanned.Cells[i] != c {
			t.Errorf("cell %d is\n%+v by the index and\n%+v by itself, want\n%+v", i, read.Cells[i], scanned.Cells[i], c)
		}
	}
	sameFiles(t, untar(t, bytes.NewReader(data)), listed)
	single := untar(t, bytes.NewReader(viewBytes(t, Single, partOf(data, x))))
	sameFiles(t, single, listed)
	records := viewBytes(t, WARC, partOf(data, x))
	zr, err := gzip.NewReader(bytes.NewReader(records))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range x.Cells {
		if !bytes.Contains(text, []byte("\r\nWARC-Target-URI: "+c.URL+"\r\n")) || c.Kind == Page && !bytes.Contains(text, single[c.Name]) {
			t.Errorf("the record of %s is not in the WARC view", c.URL)
		}
		if c.Kind != Page {
			continue
		}
		p, err := PageBodyOf(partOf(data, x).Source, &x.Cells[i])
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(flate.NewReader(bytes.NewReader(rangeBytes(t, p, 0, p.Size())[gzipHeader:])))
		if err != nil || !bytes.Equal(body, single[c.Name]) {
			t.Errorf("the page %s differs by itself: %v", c.URL, err)
		}
	}
}

// FuzzVerify passes garbage to the verifiers: an error, not a panic, and little memory.
func FuzzVerify(f *testing.F) {
	data, x := smallSegment(f)
	f.Add(data)
	f.Add(data[:x.CellsEnd])
	f.Add(data[x.CellsEnd:])
	f.Add(append(bytes.Clone(data[:x.CellsEnd+x.IndexLength]), data...))
	f.Fuzz(func(t *testing.T, data []byte) {
		bounded(t, len(data), func() {
			VerifySegment(bytes.NewReader(data), VerifyOptions{Views: []ViewKind{Single, WARC}})
			VerifyRange(bytes.NewReader(data), VerifyOptions{})
			VerifyBatchTail(bytes.NewReader(data))
			VerifyBatch(bytes.NewReader(data), VerifyOptions{}, func(*Summary) error { return nil })
		})
	})
}

// FuzzForge puts strange parts together with sums and offsets that fit, which garbage never has.
// What the verifier accepts, others must be able to read.
func FuzzForge(f *testing.F) {
	base := newForge(f)
	for _, c := range base.cells {
		f.Add(c.headers, c.warc, c.http, c.cut, c.body, c.run, c.pad)
	}
	for _, run := range badRuns([]byte("<p>first")) {
		c := base.cells[0]
		f.Add(c.headers, c.warc, c.http, c.cut, c.body, run, c.pad)
	}
	f.Fuzz(func(t *testing.T, headers []byte, warc, http string, cut, body, run, pad []byte) {
		forged := *base
		forged.t = t
		c := &forgedCell{headers: headers, warc: warc, http: http, cut: cut, body: body}
		if len(run) > 0 {
			c.run = run
		}
		if len(pad) > 0 {
			c.pad = pad
		}
		forged.cells = []*forgedCell{c}
		if len(warc)+len(http)+len(cut) > 60<<10 { // not a field's length
			return
		}
		data, starts := forged.build()
		var err error
		bounded(t, len(data), func() { _, err = VerifyRange(bytes.NewReader(data[:starts[1]]), VerifyOptions{Host: testHost}) })
		bounded(t, len(data), func() { _, err = ReadIndex(context.Background(), sourceOf(data[:starts[1]]), starts[1]) })
		if err != nil {
			return
		}
		x, err := ReadIndex(context.Background(), sourceOf(data[:starts[1]]), starts[1])
		if err != nil {
			t.Fatal(err)
		}
		listed := map[string][]byte{}
		if len(headers) > 0 {
			listed[x.Cells[0].Name] = body
		}
		whole := append(bytes.Clone(data[:starts[1]]), EndMember(0, 0)...)
		sameFiles(t, untar(t, bytes.NewReader(whole)), listed)
		sameFiles(t, untar(t, bytes.NewReader(viewBytes(t, Single, partOf(whole, x)))), listed)
	})
}

// FuzzIndexCell passes an index cell with any text to the reader: what it accepts has views
// that can be read, or fail.
func FuzzIndexCell(f *testing.F) {
	data, x := smallSegment(f)
	var lines []byte
	for i := range x.Cells {
		lines = x.Cells[i].appendLine(lines, 500)
	}
	lines = x.links.appendLinksLine(lines)
	base := newForge(f)
	f.Add(lines, naming.IndexName(testHost, "small"))
	f.Add(bytes.Repeat([]byte("{}\n"), 9), testHost+"/_meta/x.cdxj")
	f.Fuzz(func(t *testing.T, lines []byte, name string) {
		headers := (&tarEntry{name: name, size: int64(len(lines)), modified: testTime}).headers()
		cells := data[:x.CellsEnd]
		segment := base.tarOnly(bytes.Clone(cells), headers, lines, nil)
		segment = append(segment, EndMember(int64(len(cells)), int64(len(segment)-len(cells)))...)
		bounded(t, len(segment), func() {
			got, err := ReadIndex(context.Background(), sourceOf(segment), int64(len(segment)))
			if err != nil {
				return
			}
			for _, kind := range []ViewKind{Members, Single, Files, WARC, Links} {
				if v, err := NewView(kind, []Part{partOf(segment, got)}); err == nil {
					if rc, err := v.OpenRange(context.Background(), 0, v.Size()); err == nil {
						io.Copy(io.Discard, rc)
						rc.Close()
					}
				}
			}
			for i := range got.Cells {
				if p, err := PageBodyOf(partOf(segment, got).Source, &got.Cells[i]); err == nil {
					if rc, err := p.Open(context.Background()); err == nil {
						io.Copy(io.Discard, io.LimitReader(rc, 1<<20))
						rc.Close()
					}
				}
			}
		})
	})
}

// FuzzEnd passes whole cells with another end to the reader: the footer is what it trusts first.
func FuzzEnd(f *testing.F) {
	data, x := smallSegment(f)
	f.Add(data[x.CellsEnd+x.IndexLength:])
	f.Add(EndMember(0, 1<<40))
	f.Add(EndMember(x.CellsEnd, x.IndexLength)[1:])
	f.Add(EndMember(0, 0))
	f.Fuzz(func(t *testing.T, end []byte) {
		segment := append(bytes.Clone(data[:x.CellsEnd+x.IndexLength]), end...)
		bounded(t, len(segment), func() {
			got, err := ReadIndex(context.Background(), sourceOf(segment), int64(len(segment)))
			if err == nil && len(got.Cells) != len(x.Cells) {
				t.Errorf("%d cells read of %d", len(got.Cells), len(x.Cells))
			}
			if _, err := VerifySegment(bytes.NewReader(segment), VerifyOptions{}); err == nil && !bytes.Equal(segment, data) {
				t.Error("another end was verified")
			}
		})
	})
}

// FuzzBatchTail tries any bytes as a manifest and as its entry's name.
func FuzzBatchTail(f *testing.F) {
	base := newForge(f)
	f.Add([]byte(`{"format":1}`), manifestName, []byte{})
	f.Add(make([]byte, 5000), "_batch/x", []byte("x"))
	f.Fuzz(func(t *testing.T, manifest []byte, name string, after []byte) {
		headers := (&tarEntry{name: name, size: int64(len(manifest)), modified: time.Unix(0, 0)}).headers()
		tail := append(append(base.tarOnly(nil, headers, manifest, nil), EndMember(0, 0)...), after...)
		bounded(t, len(tail)+len(manifest), func() {
			got, err := VerifyBatchTail(bytes.NewReader(tail))
			if ok := name == manifestName && len(after) == 0; ok != (err == nil) || ok && !bytes.Equal(got, manifest) {
				t.Errorf("%q: %d of %d bytes, %v", name, len(got), len(manifest), err)
			}
		})
	})
}
