package records_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/reading"
	"sheaf/serve/records"
	"sheaf/serve/servetest"
)

// Who asks for a URL of very many records waits for others who do, and who asks for any other does
// not.
func TestManyRecordsTakeTurns(t *testing.T) {
	testkit.Slow(t)
	synctest.Test(t, func(t *testing.T) {
		s := servetest.New(t, nil)
		const many, few = "http://many.example.jp/", "http://few.example.jp/"
		at := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
		of := []*archive.Record{servetest.Page(many, "x", at)}
		for n := range records.Many {
			of = append(of, servetest.Again(many, "x", at, at.Add(time.Duration(n+1)*time.Second)))
		}
		s.Publish("20261120", map[string][]*archive.Record{"many.example.jp": of, "few.example.jp": {servetest.Page(few, "y", at)}})
		find := func(url string, want int) {
			found, err := s.Library.Records.Captures(t.Context(), &account.Account{Name: "all", Domains: []string{"*"}}, url)
			if err != nil || len(found) != want {
				t.Errorf("%s: %d records, %v; want %d", url, len(found), err, want)
			}
		}
		leave := s.Library.Records.OccupyMany()
		find(few, 1)
		ended := make(chan struct{})
		go func() { defer close(ended); find(many, records.Many+1) }()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("many records are found while another finds many")
		default:
		}
		leave()
		<-ended
	})
}

// Looking for a URL in many segments that no index of URLs covers takes no more memory for long
// than the cache may.
func TestSortedIndexesKeepToTheCache(t *testing.T) {
	testkit.Slow(t)
	s := servetest.New(t, nil)
	const host, days, each = "www.example.jp", 5, 3_000
	at := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	for day := range days {
		var of []*archive.Record
		for n := range each {
			of = append(of, servetest.Page(fmt.Sprintf("http://%s/%d/%d", host, day, n), "x", at))
		}
		s.Publish(at.AddDate(0, 0, day).Format("20060102"), map[string][]*archive.Record{host: of})
	}
	library, err := reading.New(reading.Options{Catalog: s.Catalog, Store: s.Store, Accounts: s.Accounts, CacheBytes: 1 << 20})
	testkit.Must(t, err)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	_, err = library.Records.Captures(t.Context(), &account.Account{Name: "all", Domains: []string{"*"}}, "http://"+host+"/0/0")
	testkit.Must(t, err)
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("the cache may take 1 MiB, and %d KiB are held", grown>>10)
	}
	runtime.KeepAlive(library)
}
