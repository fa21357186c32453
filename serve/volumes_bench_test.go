package serve_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/internal/testkit"
	"sheaf/serve/reading"
	"sheaf/serve/servetest"
)

// BenchmarkVolumesAtSize lists the volumes of a day with SHEAF_BENCH_HOSTS hosts (20,000) of
// about 100 kB, and opens one: both by a process that has read nothing of it yet. No segment's
// bytes are there, since none are read.
//
//	SHEAF_BENCH_HOSTS=2000000 go test ./serve -run '^$' -bench VolumesAtSize -benchtime 1x
func BenchmarkVolumesAtSize(b *testing.B) {
	hosts, dir := servetest.Number("SHEAF_BENCH_HOSTS", 20_000), b.TempDir()
	open := func() *reading.Library {
		st, err := store.OpenFS(dir)
		testkit.Must(b, err)
		b.Cleanup(func() { st.Close() })
		cat, err := catalog.Open(b.Context(), st, catalog.Options{})
		testkit.Must(b, err)
		if _, err := cat.Publish(b.Context(), manyHosts(hosts)); err != nil {
			b.Fatal(err)
		}
		lib, err := reading.New(reading.Options{Catalog: cat, Store: st})
		testkit.Must(b, err)
		return lib
	}
	for b.Loop() {
		lib, begun, files := open(), time.Now(), 0
		for _, err := range lib.Tree.List(b.Context(), everyone, volumesDir) {
			testkit.Must(b, err)
			files++
		}
		b.ReportMetric(time.Since(begun).Seconds(), "s/list")
		b.ReportMetric(float64(files/3), "volumes")
		for what, lib := range map[string]*reading.Library{"cold-s/open": open(), "s/open": lib} {
			begun = time.Now()
			f, err := lib.Tree.Open(b.Context(), everyone, volumesDir+"/00001.warc.gz")
			testkit.Must(b, err)
			testkit.Must(b, f.Close())
			b.ReportMetric(time.Since(begun).Seconds(), what)
		}
	}
}

// manyHosts is an edition of hosts whose segments are not stored.
func manyHosts(hosts int) catalog.Publication {
	batch := catalog.Batch{ID: "r1-20261120T000000Z-1", SHA256: strings.Repeat("0", 64)}
	return catalog.Publication{Day: "20261120", Batches: []catalog.Batch{batch}, Entries: func(yield func(catalog.SegmentEntry, error) bool) {
		for i := range hosts {
			host := fmt.Sprintf("www.u%07d.%s.jp", uint64(i)*2654435761%1e7, []string{"co", "ne", "ac"}[i%3])
			sum := servetest.SHA256([]byte(host))
			size := int64(20_000 + i*7919%160_000)
			views := make(map[string]catalog.View)
			for _, kind := range []archive.ViewKind{archive.Single, archive.Files, archive.WARC} {
				views[string(kind)] = catalog.View{Size: size, SHA256: sum, ETag: archive.SegmentETag(kind, sum)}
			}
			if !yield(catalog.SegmentEntry{
				Host: host, Object: "segments/" + sum, Length: size, IndexOffset: size - 700, IndexLength: 600,
				First: dayOne, Last: dayOne, Records: 10, Files: 10, SHA256: sum, Views: views,
				Origin: catalog.Origin{Batch: batch.ID, BatchSHA256: batch.SHA256, Robot: "r1"},
			}, nil) {
				return
			}
		}
	}}
}

// BenchmarkVolumeRead reads a volume of 2,000 hosts, 40 kB each, from a local store, beside a plain
// copy of its bytes.
func BenchmarkVolumeRead(b *testing.B) {
	s := servetest.New(b, nil)
	batch := make(map[string][]*archive.Record)
	for i := range 2000 {
		host := fmt.Sprintf("www.u%04d.ac.jp", i)
		for j := range 4 {
			text := make([]byte, 10_000)
			for k := range text {
				text[k] = byte(i*7919 + j*104729 + k*k*31 + k>>3)
			}
			batch[host] = append(batch[host], servetest.Page(fmt.Sprintf("http://%s/%d", host, j), string(text), dayOne))
		}
	}
	s.Publish("20261120", batch)
	for _, suffix := range []string{".tar.gz", ".warc.gz"} {
		copied := filepath.Join(b.TempDir(), "copy")
		read := func(b *testing.B) (r io.ReadCloser, size int64) {
			f, err := s.Library.Tree.Open(b.Context(), everyone, volumesDir+"/00001"+suffix)
			testkit.Must(b, err)
			b.Cleanup(func() { f.Close() })
			r, err = f.OpenRange(b.Context(), 0, f.Size)
			testkit.Must(b, err)
			return r, f.Size
		}
		for name, open := range map[string]func(*testing.B) (io.ReadCloser, int64){
			"volume": read,
			"file": func(b *testing.B) (io.ReadCloser, int64) {
				f, err := os.Open(copied)
				testkit.Must(b, err)
				info, err := f.Stat()
				testkit.Must(b, err)
				return f, info.Size()
			},
		} {
			r, _ := read(b)
			f, err := os.Create(copied)
			testkit.Must(b, err)
			_, err = io.Copy(f, r)
			testkit.Must(b, err)
			testkit.Must(b, f.Close())
			testkit.Must(b, r.Close())
			b.Run(name+suffix, func(b *testing.B) {
				for b.Loop() {
					r, size := open(b)
					n, err := io.Copy(struct{ io.Writer }{io.Discard}, r)
					testkit.Must(b, err)
					if n != size {
						b.Fatalf("%d bytes of %d", n, size)
					}
					testkit.Must(b, r.Close())
					b.SetBytes(size)
				}
			})
		}
	}
}

// BenchmarkDayAtSize publishes two days of SHEAF_BENCH_HOSTS hosts (1,000) with ten pages of 1 kB,
// of which three change, and then tells what the second day changed. It reports the seconds from
// the publication to the files, and their bytes.
//
//	SHEAF_BENCH_HOSTS=10000 go test ./serve -run '^$' -bench DayAtSize -benchtime 1x
func BenchmarkDayAtSize(b *testing.B) {
	const pages, changed = 10, 3
	hosts := servetest.Number("SHEAF_BENCH_HOSTS", 1000)
	random := testkit.Random(b)
	text := func() string {
		body := make([]byte, 1000)
		for i := range body {
			body[i] = "aeiou tnsrhl"[random.IntN(12)]
		}
		return string(body)
	}
	for b.Loop() {
		s := servetest.New(b, nil)
		lib, err := reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store})
		testkit.Must(b, err)
		first, second := make(map[string][]*archive.Record), make(map[string][]*archive.Record)
		for i := range hosts {
			host := fmt.Sprintf("www.u%06d.jp", i)
			for j := range pages {
				url, body := fmt.Sprintf("http://%s/%d", host, j), text()
				first[host] = append(first[host], servetest.Page(url, body, dayOne))
				next := servetest.Again(url, body, dayOne, dayOne.AddDate(0, 0, 1))
				if j < changed {
					next = servetest.Page(url, text(), dayOne.AddDate(0, 0, 1))
				}
				second[host] = append(second[host], next)
			}
		}
		s.Publish("20261120", first)
		s.Publish("20261121", second)
		begun := time.Now()
		testkit.Must(b, lib.Tree.MakeChanges(b.Context(), everyone, "20261121"))
		b.ReportMetric(time.Since(begun).Seconds(), "s/changes")
		for name, what := range map[string]string{"changes.jsonl.gz": "B/line", "changes.parquet": "B/row"} {
			n, err := lib.Tree.Stat(b.Context(), everyone, "/days/20261121/jp/"+name)
			testkit.Must(b, err)
			b.ReportMetric(float64(n.Size)/float64(hosts*pages), what)
		}
		var tar int64
		for n, err := range lib.Tree.List(b.Context(), everyone, "/days/20261121/jp") {
			testkit.Must(b, err)
			if strings.HasSuffix(n.Name, ".tar.gz") {
				tar += n.Size
			}
		}
		b.ReportMetric(float64(tar)/float64(hosts*changed), "B/changed")
	}
}
