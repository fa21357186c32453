package service

import (
	"log/slog"
	"net/url"
	"testing"
	"time"

	"sheaf/archive/urlindex"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/records"
	"sheaf/serve/results"
	"sheaf/serve/servetest"
)

// BenchmarkTableAtSize makes the table of records of an archive of SHEAF_BENCH_HOSTS hosts with ten
// pages each, as a job does, and reports what a record takes: processor time and bytes. It logs the
// largest memory meanwhile.
func BenchmarkTableAtSize(b *testing.B) {
	l := large{hosts: servetest.Number("SHEAF_BENCH_HOSTS", 20_000)}
	s := servetest.New(b, nil)
	l.publishMadeUp(b, s)
	index := urlindex.NewBuilder(s.Catalog, s.Store, urlindex.Options{TempDir: b.TempDir(), Log: slog.New(slog.DiscardHandler), Segment: l.segment(s)})
	testkit.Must(b, index.Update(b.Context()))
	reader := s.Account("reader", "always", "*")
	q, err := records.ParseQuery(url.Values{"edition": {l.day(0).Format("20060102")}}, nil)
	testkit.Must(b, err)
	forgetPeak(b)
	var records, size int64
	began, before := time.Now(), cpu()
	for b.Loop() {
		records, size = l.table(b, s, reader, q)
		if records != int64(l.hosts)*pagesEach {
			b.Fatalf("%d records, want %d", records, l.hosts*pagesEach)
		}
	}
	all := float64(records) * float64(b.N)
	b.ReportMetric(float64((cpu()-before).Microseconds())/all, "cpu-µs/record")
	b.ReportMetric(all/time.Since(began).Seconds(), "records/s")
	b.ReportMetric(float64(size)/float64(records), "B/record")
	b.Logf("the largest memory: %.0f MiB", peak(b))
}

// table makes a table, and returns its numbers of records and bytes.
func (large) table(b *testing.B, s *servetest.Site, reader *account.Account, q *records.Query) (rows, size int64) {
	t, err := s.Library.Results.Make(b.Context(), reader, api.TableOfRecords, results.OfBodies, func(to results.TableSink) error {
		_, err := results.Tabulate(b.Context(), q, s.Library.Records, reader, to, records.Budget{}, func() {})
		return err
	})
	testkit.Must(b, err)
	return t.Records(), t.Size()
}
