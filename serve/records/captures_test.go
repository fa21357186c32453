package records_test

import (
	"testing"
	"testing/synctest"
	"time"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
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
