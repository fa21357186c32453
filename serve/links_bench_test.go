package serve_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/internal/api"
	"sheaf/internal/lease"
	"sheaf/internal/testkit"
	"sheaf/serve/library"
	"sheaf/serve/results"
	"sheaf/serve/servetest"
)

// BenchmarkLinkTables: what the tables of the links of the latest versions cost, by the number of
// pages, each with 60 links, and what it costs to ask who links to a page.
func BenchmarkLinkTables(b *testing.B) {
	const hosts, links = 50, 60
	for _, pages := range []int{1_000, 5_000, 20_000} {
		b.Run(fmt.Sprint(pages), func(b *testing.B) {
			s := servetest.New(b, everyone)
			batch := make(map[string][]*archive.Record)
			for i := range pages {
				host := fmt.Sprintf("www.u%02d.ac.jp", i%hosts)
				r := servetest.Page(fmt.Sprintf("http://%s/dir/page-%d.html", host, i), fmt.Sprint("page ", i), dayOne)
				for j := range links {
					to := (i*7 + j*j*13) % pages
					r.Links = append(r.Links, archive.Link{URL: fmt.Sprintf("http://www.u%02d.ac.jp/dir/page-%d.html", to%hosts, to), Kind: "a", Anchor: fmt.Sprintf("%d ページの題", to)})
				}
				batch[host] = append(batch[host], r)
			}
			s.Publish("20261120", batch)
			clear(batch)
			leases, quiet := lease.NewDB(s.DB, nil, lease.Options{}), slog.New(slog.DiscardHandler)
			latest := results.NewCurrentMaker(results.CurrentOptions{Tree: s.Library.Tree, Store: s.Store, Leases: leases, Domains: []string{"jp"}, Every: time.Hour, Look: time.Hour, Log: quiet})
			testkit.Must(b, latest.Update(b.Context(), func(context.Context, time.Duration) error { return nil }))
			before, begun := usage(), time.Now()
			makes := results.NewLinkMaker(results.TableOptions{Tree: s.Library.Tree, Files: s.Library.Results, Records: s.Library.Records, Store: s.Store, Leases: leases, Every: time.Hour, Log: quiet})
			most := peak(b, func() { testkit.Must(b, makes.Update(b.Context())) })
			took, cpu := time.Since(begun), usage()-before
			sizes := make(map[string]int64)
			for n, err := range s.Library.Tree.List(b.Context(), everyone, "/current/20261120/jp") {
				testkit.Must(b, err)
				_, name, _ := strings.Cut(n.Name, ".")
				sizes[name] += n.Size
			}
			tables, err := s.Library.Tree.LinkTables(b.Context(), api.TableOfInlinks)
			testkit.Must(b, err)
			for b.Loop() {
				x := results.Inlinks{Archive: s.Library.Archive, Account: everyone, From: tables, Target: library.Target{Match: library.MatchExact, Key: "jp,ac,u07)/dir/page-7.html"}, Limit: 1000, Enough: func() bool { return false }}
				if found, _, err := x.Pages(b.Context()); err != nil || len(found) == 0 {
					b.Fatal(len(found), err)
				}
			}
			b.ReportMetric(took.Seconds(), "s-to-files")
			b.ReportMetric(float64(cpu.Microseconds())/float64(pages), "CPU-µs/page")
			b.ReportMetric(float64(most>>20), "MiB-at-most")
			for _, name := range []string{api.TableOfLinks, api.TableOfInlinks, api.TableOfLinkHosts} {
				b.ReportMetric(float64(sizes[name])/float64(pages), strings.TrimSuffix(name, ".parquet")+"-B/page")
			}
		})
	}
}

// usage returns the processor time that this process has taken.
func usage() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it fails for no reason that a benchmark could meet
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak returns how many bytes of the heap were in use at most while f ran, as often as a sampler
// could look.
func peak(b *testing.B, f func()) (most uint64) {
	b.Helper()
	runtime.GC()
	done, sampled := make(chan struct{}), make(chan uint64)
	go func() {
		ticks := time.NewTicker(5 * time.Millisecond)
		defer ticks.Stop()
		for most := uint64(0); ; {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse)
			select {
			case <-done:
				sampled <- most
				return
			case <-ticks.C:
			}
		}
	}()
	f()
	close(done)
	return <-sampled
}
