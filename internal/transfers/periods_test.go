package transfers_test

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/route"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
)

// Days and months are those of the service's zone: 2026-11-30 15:30 in UTC is December in Tokyo.
func TestPeriodsAreOfTheZone(t *testing.T) {
	log := table10(t)
	tokyo := time.FixedZone("JST", 9*3600)
	late := transfers.Transfer{At: time.Date(2026, 11, 30, 15, 30, 0, 0, time.UTC), Who: "etl", Bytes: 1000, Took: time.Second,
		Direction: transfers.Upload, Protocol: "ftp", Outcome: transfers.Aborted, Remote: "192.0.2.1:7", Name: "b"}
	testkit.Must(t, log.Record(t.Context(), late))
	november := time.Date(2026, 11, 1, 0, 0, 0, 0, tokyo)
	months, err := log.Periods(t.Context(), transfers.PeriodFilter{By: transfers.Month, Since: november, Direction: transfers.Upload})
	testkit.Must(t, err)
	if len(months) != 2 || months[0].Bytes != 7276922+6431092+5509423 || months[0].Count != 3 || months[0].Took != 138*time.Second ||
		!months[1].Begin.Equal(november.AddDate(0, 1, 0)) || months[1].Bytes != 1000 || months[1].Aborted != 1 {
		t.Errorf("%+v", months)
	}
	each, err := log.Periods(t.Context(), transfers.PeriodFilter{By: transfers.Day, Since: november, Until: november.AddDate(0, 1, 0), Each: true})
	testkit.Must(t, err)
	var names []string
	for _, p := range each {
		names = append(names, p.Who)
	}
	if got := strings.Join(names, " "); got != "etl jaist waseda reader" {
		t.Errorf("in November: %s", got)
	}
	hours, err := log.Periods(t.Context(), transfers.PeriodFilter{By: transfers.Hour, Since: late.At, Who: "etl"})
	testkit.Must(t, err)
	if len(hours) != 1 || !hours[0].Begin.Equal(late.At.Truncate(time.Hour)) {
		t.Errorf("%+v", hours)
	}
}

// Old hours become days, also if two processes do that at once. Nothing is lost or counted twice.
// Single transfers are dropped after their time.
func TestOldHoursBecomeDays(t *testing.T) {
	log := table10(t)
	tokyo := time.FixedZone("JST", 9*3600)
	all := transfers.PeriodFilter{By: transfers.Day, Since: start.AddDate(0, 0, -2).In(tokyo), Each: true}
	before, err := log.Periods(t.Context(), all)
	testkit.Must(t, err)
	later := start.AddDate(2, 0, 0)
	keep := transfers.Keeping{Single: 24 * time.Hour, Zone: tokyo}
	done := make(chan error)
	for range 2 {
		go func() { done <- transfers.Trim(log, t.Context(), keep, later) }()
	}
	testkit.Must(t, <-done)
	testkit.Must(t, <-done)
	after, err := log.Periods(t.Context(), all)
	testkit.Must(t, err)
	if len(before) != 4 || len(after) != 4 {
		t.Fatalf("%d before, %d after", len(before), len(after))
	}
	for i := range before {
		if before[i].Who != after[i].Who || before[i].Bytes != after[i].Bytes || before[i].Took != after[i].Took || !before[i].Begin.Equal(after[i].Begin) {
			t.Errorf("%+v became %+v", before[i], after[i])
		}
	}
	list, err := log.List(t.Context(), transfers.Filter{})
	testkit.Must(t, err)
	if len(list) != 0 {
		t.Errorf("%d single transfers are still there", len(list))
	}
}

// Downloads lose their clients' addresses after transfers.addresses, and robots' uploads keep
// theirs; single transfers go after transfers.keep. Both happens at the start and every hour.
func TestKeeping(t *testing.T) {
	source := dbtest.Source(t)
	synctest.Test(t, func(t *testing.T) {
		d, err := db.Open(t.Context(), source)
		testkit.Must(t, err)
		defer d.Close()
		log := transfers.New(d)
		const day = 24 * time.Hour
		for _, age := range []time.Duration{23 * time.Hour, day, 9 * day, 10*day - 30*time.Minute, 11 * day, 30*day - 30*time.Minute, 31 * day} {
			for _, direction := range []string{transfers.Upload, transfers.Download} {
				testkit.Must(t, log.Record(t.Context(), transfers.Transfer{
					At: time.Now().Add(-age), Who: direction, Name: age.String(), Bytes: 1, Took: time.Second,
					Direction: direction, Protocol: "http", Outcome: transfers.OK, Remote: "192.0.2.1:7",
				}))
			}
		}
		check := func(when, want string) {
			t.Helper()
			list, err := log.List(t.Context(), transfers.Filter{})
			testkit.Must(t, err)
			var got []string
			for _, one := range list {
				kept := one.Name + " " + one.Direction
				if one.Remote == "" {
					kept += " without address"
				}
				got = append(got, kept)
			}
			slices.Sort(got)
			if all := strings.Join(got, ", "); all != want {
				t.Errorf("%s:\n%s, want\n%s", when, all, want)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- log.Run(ctx, transfers.Keeping{Single: 30 * day, Addresses: 10 * day, Zone: time.UTC}, func(err error) { t.Error(err) })
		}()
		synctest.Wait()
		check("at the start", "216h0m0s download, 216h0m0s upload, 239h30m0s download, 239h30m0s upload, 23h0m0s download, 23h0m0s upload, 24h0m0s download, 24h0m0s upload, "+
			"264h0m0s download without address, 264h0m0s upload, 719h30m0s download without address, 719h30m0s upload")
		time.Sleep(61 * time.Minute)
		synctest.Wait()
		check("after an hour", "216h0m0s download, 216h0m0s upload, 239h30m0s download without address, 239h30m0s upload, 23h0m0s download, 23h0m0s upload, 24h0m0s download, 24h0m0s upload, "+
			"264h0m0s download without address, 264h0m0s upload")
		stop()
		testkit.Must(t, <-ended)
		time.Sleep(365 * day) // or the clock is a year ahead
		ctx, stop = context.WithCancel(t.Context())
		go func() {
			ended <- log.Run(ctx, transfers.Keeping{Single: 30 * day, Zone: time.UTC}, func(err error) { t.Error(err) })
		}()
		synctest.Wait()
		stop()
		testkit.Must(t, <-ended)
		check("by a clock that is ahead", "216h0m0s download, 216h0m0s upload, 239h30m0s download without address, 239h30m0s upload, 23h0m0s download, 23h0m0s upload, 24h0m0s download, 24h0m0s upload, "+
			"264h0m0s download without address, 264h0m0s upload")
		sums, err := log.Periods(t.Context(), transfers.PeriodFilter{By: transfers.Month, Since: time.Now().Add(-500 * day).UTC()})
		testkit.Must(t, err)
		var count int64
		for _, one := range sums {
			count += one.Count
		}
		if count != 14 {
			t.Errorf("the sums have %d transfers", count)
		}
	})
}

func TestParsePeriods(t *testing.T) {
	for query, want := range map[string]string{
		"by=week":                  `by="week": want one of hour, day, month`,
		"since=yesterday":          `since "yesterday" is neither a day like 2026-11-21 nor a time`,
		"direction=up":             `direction="up": want one of upload, download`,
		"by=hour&since=2020-01-01": "ask by day",
		"since=0001-01-01":         "nothing is kept from before 1999",
	} {
		q, err := url.ParseQuery(query)
		testkit.Must(t, err)
		read, err := route.Query[transfers.PeriodQuery](q)
		if err == nil {
			_, err = read.Filter(time.UTC, start)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
	f, err := transfers.PeriodQuery{By: transfers.Hour, Until: "9999-12-31"}.Filter(time.UTC, start)
	if err != nil || !f.Until.IsZero() {
		t.Errorf("until the year 9999: %+v, %v; want up to now", f, err)
	}
}
