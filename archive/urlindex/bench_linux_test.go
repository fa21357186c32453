package urlindex

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
	"sheaf/internal/testkit"
)

// BenchmarkIndex builds an index of generated records and looks URLs up in it. The records are in
// as many runs as thirty days leave; each day has a record of every page. SHEAF_BENCH_RECORDS sets
// the number of records, 100,000 by default. CPU is that of this process, in user and system mode.
func BenchmarkIndex(b *testing.B) {
	ctx := b.Context()
	records := number("SHEAF_BENCH_RECORDS", 100_000)
	const runs = 9 // after 30 daily builds: three merged runs and six of one day
	sizes := []int{8, 8, 8, 1, 1, 1, 1, 1, 1}
	for b.Loop() {
		fs, err := store.OpenFS(b.TempDir())
		testkit.Must(b, err)
		cat, err := catalog.Open(ctx, fs, catalog.Options{})
		testkit.Must(b, err)
		snap, err := cat.Pin(ctx)
		testkit.Must(b, err)
		builder := NewBuilder(cat, fs, Options{TempDir: b.TempDir(), Log: slog.New(slog.DiscardHandler)})
		s := state{Kind: kindBuild}
		day, pages := 0, max(records/30, 1)
		began, cpu := time.Now(), used()
		for i := range runs {
			j := &job{builder, snap, &entry{state: state{N: int64(i)}}, &withdrawn{}}
			sorter := sortedrun.NewSorter(b.TempDir(), builder.opt.SortMemory, compareLines)
			var line []byte
			for range sizes[i] {
				day++
				for p := range pages {
					line = appendRow(line[:0], madeUp(p, day))
					testkit.Must(b, sorter.Add(line))
				}
			}
			sorted, err := sorter.Rows(ctx)
			testkit.Must(b, err)
			ref, err := j.makeRun(ctx, kindBuild, 0, sorted)
			testkit.Must(b, err)
			testkit.Must(b, sorter.Close())
			s.Runs = append(s.Runs, ref)
		}
		_, err = builder.states.append(ctx, &entry{}, s)
		testkit.Must(b, err)
		rows := float64(day * pages)
		cpu = used() - cpu
		b.ReportMetric(time.Since(began).Seconds(), "build-s")
		b.ReportMetric(float64(cpu.Microseconds())/rows, "build-cpu-µs/row")
		var cdx, idx, list int64
		for _, r := range s.Runs {
			cdx, idx, list = cdx+r.Cdx.Size, idx+r.Idx.Size, list+r.Pages.Size
		}
		b.ReportMetric(float64(cdx)/rows, "cdx-B/row")
		b.ReportMetric(float64(idx)/rows, "idx-B/row")
		b.ReportMetric(float64(list)/rows*1e6, "memory-B/1e6rows")

		began = time.Now()
		_, err = NewReader(fs, ReaderOptions{}).Current(ctx)
		testkit.Must(b, err)
		b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "open-ms")
		b.ReportMetric(lookUps(b, fs, pages, 300, true), "cold-cpu-ms/look-up")
		b.ReportMetric(lookUps(b, fs, pages, 3000, false), "warm-cpu-ms/look-up")

		cpu = used()
		j := &job{builder, snap, &entry{state: state{N: runs}}, &withdrawn{}}
		_, err = j.rewrite(ctx, kindMerge, 1, s.Runs[1:]...)
		testkit.Must(b, err)
		b.ReportMetric(float64((used()-cpu).Microseconds())/(rows-float64(s.Runs[0].Rows)), "merge-cpu-µs/row")
		testkit.Must(b, fs.Close())
	}
}

// lookUps looks up n pages. If cold, it uses a new reader for each; otherwise it looks up few
// different pages. It reports the 50th and 99th percentile of the time, and returns the CPU time of
// one look-up.
func lookUps(b *testing.B, st store.Store, pages, n int, cold bool) float64 {
	ctx := b.Context()
	name := "warm"
	hot := min(pages, 200)
	if cold {
		name, hot = "cold", pages
	}
	random := rand.New(rand.NewPCG(1, 2))
	took := make([]time.Duration, n)
	reader := NewReader(st, ReaderOptions{Lag: time.Hour})
	look := func() {
		if cold {
			reader = NewReader(st, ReaderOptions{})
		}
		v, err := reader.Current(ctx)
		testkit.Must(b, err)
		rows, err := v.Rows(ctx, Exact(naming.SURT(madeUpURL(random.IntN(hot)))))
		testkit.Must(b, err)
		found := 0
		for {
			r, err := rows.Next(ctx)
			testkit.Must(b, err)
			if r == nil {
				break
			}
			found++
		}
		if found != 30 {
			b.Fatalf("%d records found, want 30", found)
		}
	}
	if !cold {
		for range 4 * hot {
			look()
		}
	}
	before := used()
	for i := range took {
		began := time.Now()
		look()
		took[i] = time.Since(began)
	}
	cpu := used() - before
	slices.Sort(took)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(took[n*p/100].Microseconds())/1000, fmt.Sprintf("%s-p%d-ms", name, p))
	}
	return float64(cpu.Microseconds()) / 1000 / float64(n)
}

func madeUpURL(p int) string {
	return fmt.Sprintf("http://www.%s.co.jp/%s/%s/page-%d.html", word(p/1000), word(p/50), word(p*7), p)
}

// word returns a unique, word-like text for each number. Neighbouring numbers give words far apart.
func word(i int) string {
	const syllables = "kasatanahamayarawakisitinihimirikusutunuhumuyuruketesenehemere"
	n := uint64(i)*2654435761%(1<<32) | 1<<32
	var w []byte
	for ; n > 0; n /= 31 {
		w = append(w, syllables[n%31*2:][:2]...)
	}
	return string(w)
}

// madeUp returns the generated record of a page on a day.
func madeUp(p, day int) *Row {
	u := madeUpURL(p)
	sum := sha256.Sum256(fmt.Append(nil, p, day))
	crc := func(i int) uint32 { return binary.LittleEndian.Uint32(sum[i:]) }
	body := int64(5000 + crc(0)%50_000)
	host, _ := naming.HostOf(u)
	before := int64(p%1000) * 12_000
	r := &Row{Seq: int64(day)*100_000 + int64(p/1000), Before: before, FileOffset: archive.WARCStart() + before,
		Filename: naming.HostPath(host) + fmt.Sprintf("/202611%02d.warc.gz", day)}
	r.Cell = archive.Cell{Kind: archive.Page, URLKey: naming.SURT(u), URL: u, MIME: "text/html", Status: 200,
		Time:   time.Date(2026, 11, day, 2, 3, 4, int(crc(4)%1000)*1e6, time.UTC).Add(time.Duration(p%80_000) * time.Second),
		Digest: "sha256:" + base32.StdEncoding.EncodeToString(sum[:]),
		Place: archive.Place{Offset: before, TLen: 300 + int64(crc(8)%40), BLen: 700 + body/4, HeaderLen: 1536, HeaderCRC: crc(12),
			HeadLen: 480, BodyLen: body, BodyCRC: crc(16), RecordCRC: crc(20)}}
	return r
}

// used returns the CPU time of the process.
func used() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}
