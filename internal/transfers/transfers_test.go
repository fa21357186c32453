package transfers_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// table10 returns a log with the transfers of table 10 of the paper, and one aborted download.
func table10(t *testing.T) *transfers.Log {
	t.Helper()
	d, err := db.Open(t.Context(), dbtest.Source(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	log := transfers.New(d)
	for i, tr := range []transfers.Transfer{
		{Who: "etl", Bytes: 7276922, Took: 18 * time.Second, Direction: transfers.Upload, Protocol: "ftp", Outcome: transfers.OK},
		{Who: "jaist", Bytes: 6431092, Took: 21 * time.Second, Direction: transfers.Upload, Protocol: "ftp", Outcome: transfers.OK},
		{Who: "waseda", Bytes: 5509423, Took: 99 * time.Second, Direction: transfers.Upload, Protocol: "http", Outcome: transfers.OK},
		{Who: "reader", Bytes: 500, Took: time.Second, Direction: transfers.Download, Protocol: "http", Outcome: transfers.Aborted},
	} {
		tr.At = start.Add(time.Duration(i) * time.Minute)
		tr.Name, tr.Remote = "name", "192.0.2.1:7"
		if err := log.Record(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
	}
	return log
}

func TestTable10(t *testing.T) {
	totals, err := table10(t).Totals(t.Context(), transfers.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := transfers.WriteTable(&b, totals); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"name bytes seconds bytes/s way transfers",
		"etl 7276922 18.0 404k ftp upload 1",
		"jaist 6431092 21.0 306k ftp upload 1",
		"waseda 5509423 99.0 56k http upload 1",
		"reader 500 1.0 500 http download 1",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", b.String(), strings.Join(want, "\n"))
	}
}

func TestListFilters(t *testing.T) {
	log := table10(t)
	for name, c := range map[string]struct {
		f    transfers.Filter
		want string
	}{
		"all, newest first": {transfers.Filter{}, "reader waseda jaist etl"},
		"who":               {transfers.Filter{Who: "etl"}, "etl"},
		"direction":         {transfers.Filter{Direction: transfers.Download}, "reader"},
		"since":             {transfers.Filter{Since: start.Add(time.Minute)}, "reader waseda jaist"},
		"limit":             {transfers.Filter{Limit: 2}, "reader waseda"},
		"before":            {transfers.Filter{Before: 3}, "jaist etl"},
		"none":              {transfers.Filter{Who: "nobody"}, ""},
	} {
		list, err := log.List(t.Context(), c.f)
		if err != nil {
			t.Fatal(err)
		}
		var who []string
		for _, tr := range list {
			who = append(who, tr.Who)
		}
		if got := strings.Join(who, " "); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// Transfers under way are listed with their bytes and time so far, until they end.
func TestRunning(t *testing.T) {
	t.Parallel()
	var running transfers.Running
	moved := int64(7)
	now := time.Now()
	ended := running.Begin(transfers.Transfer{At: now.Add(-2 * time.Second), Direction: transfers.Download, Protocol: "ftp", Who: "jp", Name: "/a", Acknowledged: true},
		func() int64 { return moved })
	running.Begin(transfers.Transfer{At: now.Add(-time.Second), Direction: transfers.Upload, Protocol: "http", Who: "r1", Name: "b"}, func() int64 { return 1 })
	log := table10(t)
	list := func(f transfers.Filter) []transfers.TransferLine {
		t.Helper()
		f.Limit = 100
		doc, err := log.Document(t.Context(), f, &running)
		testkit.Must(t, err)
		return doc.Running
	}
	all := list(transfers.Filter{})
	if len(all) != 2 || all[0].Name != "/a" || all[0].Bytes != 7 || all[0].Seconds < 2 || all[1].Name != "b" {
		t.Fatalf("under way: %+v", all)
	}
	if of := list(transfers.Filter{Who: "r1"}); len(of) != 1 || of[0].Who != "r1" {
		t.Errorf("under way of r1: %+v", of)
	}
	var text bytes.Buffer
	if err := transfers.WriteRunning(&text, all); err != nil || !strings.Contains(text.String(), "ftp download") || !strings.Contains(text.String(), "client") {
		t.Errorf("%v\n%s", err, text.String())
	}
	ended()
	if left := list(transfers.Filter{Direction: transfers.Download}); len(left) != 0 {
		t.Errorf("it has ended: %+v", left)
	}
}
