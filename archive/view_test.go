package archive

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sheaf/archive/deflate"
	"sheaf/internal/testkit"
)

func TestViewRanges(t *testing.T) {
	data, x, _ := testSegment(t)
	other, y := smallSegment(t)
	whole, second := partOf(data, x), partOf(other, y)
	some := whole
	some.Cells = []int{len(x.Cells) - 1, 0, 3, 4, 9, 22}
	random := rand.New(rand.NewPCG(5, 6))
	for _, kind := range []ViewKind{Members, Single, Files, WARC} {
		for name, parts := range map[string][]Part{"whole": {whole}, "two": {whole, second}, "some": {some, second}, "none": {}} {
			t.Run(string(kind)+" "+name, func(t *testing.T) {
				v, err := NewView(kind, parts)
				if err != nil {
					t.Fatal(err)
				}
				all := rangeBytes(t, v, 0, v.Size())
				for range 200 {
					off := random.Int64N(v.Size() + 1)
					n := min(random.Int64N(3000), v.Size()-off)
					if got := rangeBytes(t, v, off, n); !bytes.Equal(got, all[off:off+n]) {
						t.Fatalf("%d bytes at %d differ from those of the whole", n, off)
					}
				}
				zr, err := gzip.NewReader(bytes.NewReader(all))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, zr); err != nil {
					t.Error(err)
				}
				for _, bad := range [][2]int64{{-1, 1}, {0, v.Size() + 1}, {v.Size() + 1, 0}, {1, -1}} {
					if _, err := v.OpenRange(context.Background(), bad[0], bad[1]); err == nil {
						t.Errorf("range %v was accepted", bad)
					}
				}
			})
		}
	}
}

// TestViewOfMoreKeepsItsPrefix: what a client has of a host's history stays good when a segment is
// added.
func TestViewOfMoreKeepsItsPrefix(t *testing.T) {
	data, x, _ := testSegment(t)
	other, y := smallSegment(t)
	for _, kind := range []ViewKind{Single, WARC, Members, Files} {
		one := viewBytes(t, kind, partOf(data, x))
		two := viewBytes(t, kind, partOf(data, x), partOf(other, y))
		n := len(one) - endMemberSize
		if !bytes.Equal(one[:n], two[:n]) {
			t.Errorf("%s: the longer file does not begin as the shorter", kind)
		}
	}
}

func TestETagsDiffer(t *testing.T) {
	data, x, _ := testSegment(t)
	other, y := smallSegment(t)
	a, b := partOf(data, x), partOf(other, y)
	none, one := a, a
	none.Cells, one.Cells = []int{}, []int{1}
	seen := map[string]bool{}
	for _, kind := range []ViewKind{Members, Single, Files, WARC} {
		for _, parts := range [][]Part{{a}, {b}, {a, b}, {b, a}, {none}, {one}} {
			v, err := NewView(kind, parts)
			if err != nil {
				t.Fatal(err)
			}
			if tag := v.ETag(); seen[tag] || !strings.HasPrefix(tag, `"`) {
				t.Errorf("ETag %s is not quoted or was given to another view", tag)
			}
			seen[v.ETag()] = true
		}
	}
}

func TestPageBody(t *testing.T) {
	data, x, listed := testSegment(t)
	for i, c := range x.Cells {
		p, err := PageBodyOf(partOf(data, x).Source, &x.Cells[i])
		if (err == nil) != c.Kind.HasFile() {
			t.Fatalf("%s: %v", c.URL, err)
		}
		if err != nil {
			continue
		}
		rc, err := p.Open(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(rc)
		if err != nil || !bytes.Equal(body, listed[c.Name]) {
			t.Errorf("%s: %d bytes, %v", c.URL, len(body), err)
		}
		all := rangeBytes(t, p, 0, p.Size())
		for _, off := range []int64{0, 1, 9, 10, 11, p.Size() - 11, p.Size() - 10, p.Size() - 1, p.Size()} {
			for _, n := range []int64{0, 1, 5, p.Size() - off} {
				if n = min(n, p.Size()-off); !bytes.Equal(rangeBytes(t, p, off, n), all[off:off+n]) {
					t.Errorf("%s: %d bytes at %d are wrong", c.URL, n, off)
				}
			}
		}
	}
}

// TestWARCRecordsLieWhereCDXJSays reads every record at its offset, alone.
func TestWARCRecordsLieWhereCDXJSays(t *testing.T) {
	data, x, _ := testSegment(t)
	warc := viewBytes(t, WARC, partOf(data, x))
	off := int64(len(warcInfo()))
	for _, c := range x.Cells {
		record := warc[off : off+c.WARCLength()]
		zr, err := gzip.NewReader(bytes.NewReader(record))
		if err != nil {
			t.Fatal(err)
		}
		zr.Multistream(false)
		text, err := io.ReadAll(zr)
		if err != nil {
			t.Fatalf("%s: %v", c.URL, err)
		}
		if !bytes.Contains(text, []byte("\r\nWARC-Target-URI: "+c.URL+"\r\n")) || deflate.CRC(record) != c.RecordCRC {
			t.Errorf("%s is not at %d", c.URL, off)
		}
		off += c.WARCLength()
	}
	if off != int64(len(warc)) {
		t.Errorf("records end at %d of %d", off, len(warc))
	}
	var cdxj bytes.Buffer
	if err := WriteCDXJ(t.Context(), &cdxj, "x.warc.gz", []Part{{Index: x}}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(cdxj.String()), "\n")
	if len(lines) != len(x.Cells) || !slices.IsSorted(lines) || !strings.Contains(lines[0], `"filename":"x.warc.gz"`) {
		t.Errorf("CDXJ of %d lines:\n%s", len(lines), lines[0])
	}
}

func benchmarkSegment(b *testing.B, pages, size int) (*os.File, *Index, int64) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "segment")
	w, err := Create(path, testHost, "bench", WriterOptions{Level: 1})
	if err != nil {
		b.Fatal(err)
	}
	for i := range pages {
		r := page("/"+strings.Repeat("d/", i%3)+strconv.Itoa(i)+".html", "text/html", nil, i)
		r.Body = bytes.NewReader(testkit.Text(size, uint64(i)))
		if _, err := w.Append(r); err != nil {
			b.Fatal(err)
		}
	}
	x, err := w.Seal()
	if err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	return f, x, info.Size()
}

func BenchmarkView(b *testing.B) {
	f, x, _ := benchmarkSegment(b, 2000, 20<<10)
	for _, kind := range []ViewKind{Single, WARC} {
		b.Run(string(kind), func(b *testing.B) {
			buf := make([]byte, 256<<10)
			for b.Loop() {
				v, err := NewView(kind, []Part{{Source: FileSource(f, 0), Index: x}})
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(v.Size())
				rc, _ := v.OpenRange(context.Background(), 0, v.Size())
				if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, rc, buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	f, x, size := benchmarkSegment(b, 2000, 20<<10)
	decoded := int64(0)
	for _, c := range x.Cells {
		decoded += c.BodyLen
	}
	for _, views := range [][]ViewKind{nil, {Members, Single, WARC}} {
		name := "alone"
		if views != nil {
			name = "with views"
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(decoded)
			for b.Loop() {
				if _, err := VerifySegment(io.NewSectionReader(f, 0, size), VerifyOptions{Views: views}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPage reads one page out of a segment whose index is at hand; it reports p50 and p99. The
// segment has about SHEAF_BENCH_BYTES stored bytes, 20 MB where that is not set.
func BenchmarkPage(b *testing.B) {
	pages := 5000
	if text := os.Getenv("SHEAF_BENCH_BYTES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatalf("SHEAF_BENCH_BYTES: %v", err)
		}
		pages = n / 4300 // a page of 20 KiB and its cell's headers, deflated
	}
	f, x, size := benchmarkSegment(b, pages, 20<<10)
	random := rand.New(rand.NewPCG(1, 1))
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		p, err := PageBodyOf(FileSource(f, 0), &x.Cells[random.IntN(len(x.Cells))])
		if err != nil {
			b.Fatal(err)
		}
		rc, err := p.Open(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, rc)
		rc.Close()
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(size)/1e6, "MB-segment")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
