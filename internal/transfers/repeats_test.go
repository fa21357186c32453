package transfers_test

import (
	"fmt"
	"testing"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
)

// oneByte is a download of one byte.
func oneByte(at time.Time, who, remote, name string) transfers.Transfer {
	return transfers.Transfer{
		At: at, Direction: transfers.Download, Protocol: "http", Who: who, Name: name, Bytes: 1, Took: time.Millisecond,
		Outcome: transfers.OK, Remote: remote, Unknown: who == "anonymous",
	}
}

// What small downloads leave in the database is bounded, whatever a client asks for, and the totals
// count each of them.
func TestSmallDownloadsAreSummedUp(t *testing.T) {
	for name, c := range map[string]struct {
		most int // rows
		one  func(n int) transfers.Transfer
	}{
		"one byte of a file, again and again": {2, func(n int) transfers.Transfer {
			return oneByte(start.Add(time.Duration(n)*time.Millisecond), "jp", fmt.Sprintf("192.0.2.1:%d", n), "/pub/a")
		}},
		"another path each time": {603, func(n int) transfers.Transfer {
			return oneByte(start.Add(time.Duration(n)*time.Millisecond), "anonymous", "192.0.2.1:7", fmt.Sprint("/pub/", n))
		}},
		"another path and network each time": {6003, func(n int) transfers.Transfer {
			return oneByte(start.Add(time.Duration(n)*time.Millisecond), "anonymous", fmt.Sprintf("[2001:db8:0:%x::1]:7", n), fmt.Sprint("/pub/", n))
		}},
		"large files by redirection": {2, func(n int) transfers.Transfer {
			r := oneByte(start.Add(time.Duration(n)*time.Millisecond), "jp", "192.0.2.1:7", "/pub/a")
			r.Protocol, r.Bytes = transfers.Redirect, 1<<30
			return r
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := db.Open(t.Context(), dbtest.Source(t))
			testkit.Must(t, err)
			defer d.Close()
			log := transfers.New(d)
			const all = 20_000 // in twenty seconds, of one minute or two
			bytes := int64(0)
			var batch []transfers.Transfer
			for n := range all {
				batch = append(batch, c.one(n))
				bytes += batch[len(batch)-1].Bytes
				if len(batch) == 200 {
					testkit.Must(t, log.RecordAll(t.Context(), batch))
					batch = nil
				}
			}
			rows, err := log.List(t.Context(), transfers.Filter{})
			testkit.Must(t, err)
			count := int64(0)
			for _, r := range rows {
				count += r.Count
			}
			if len(rows) > c.most || count != all {
				t.Errorf("%d rows for %d downloads, want at most %d for all %d", len(rows), count, c.most, all)
			}
			totals, err := log.Totals(t.Context(), transfers.Filter{})
			testkit.Must(t, err)
			if len(totals) != 1 || totals[0].Count != all || totals[0].Bytes != bytes {
				t.Errorf("totals %+v, want %d downloads of %d bytes", totals, all, bytes)
			}
			periods, err := log.Periods(t.Context(), transfers.PeriodFilter{By: transfers.Day, Since: start})
			testkit.Must(t, err)
			if len(periods) != 1 || periods[0].Count != all || periods[0].Bytes != bytes {
				t.Errorf("periods %+v, want %d downloads of %d bytes", periods, all, bytes)
			}
		})
	}
}

// What differs in what operators look for stays apart: files, accounts, networks, outcomes,
// minutes. Large downloads of accounts have rows of their own.
func TestDownloadsThatStayApart(t *testing.T) {
	d, err := db.Open(t.Context(), dbtest.Source(t))
	testkit.Must(t, err)
	defer d.Close()
	log := transfers.New(d)
	one := oneByte(start, "jp", "192.0.2.1:7", "/pub/a")
	aborted, large := one, one
	aborted.Outcome, large.Bytes = transfers.Aborted, 64<<10
	list := []transfers.Transfer{
		large, one, aborted, large, oneByte(start, "jp", "192.0.2.1:8", "/pub/b"), oneByte(start, "keio", "192.0.2.1:7", "/pub/a"),
		oneByte(start, "jp", "192.0.2.2:7", "/pub/a"), oneByte(start.Add(time.Minute), "jp", "192.0.2.1:7", "/pub/a"),
	}
	for _, tr := range list {
		testkit.Must(t, log.Record(t.Context(), tr))
	}
	rows, err := log.List(t.Context(), transfers.Filter{})
	testkit.Must(t, err)
	if len(rows) != len(list) {
		t.Errorf("%d rows, want %d: %+v", len(rows), len(list), rows)
	}
}
