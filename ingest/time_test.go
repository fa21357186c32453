package ingest_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/archive/store/storetest"
	"sheaf/internal/testkit"
	"sheaf/internal/window"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

// clocked runs f in a synctest bubble, with an installation that is started at the given moment
// with that time zone and publish window. jump sets the wall clock; timers do not notice it.
func clocked(t *testing.T, zone, publish, begin string, f func(t *testing.T, c *clock)) {
	t.Helper()
	polled(t, time.Minute, zone, publish, begin, f)
}

// polled is clocked with another poll interval.
func polled(t *testing.T, poll time.Duration, zone, publish, begin string, f func(t *testing.T, c *clock)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(moment(t, begin))) // a bubble begins in 2000
		location, err := time.LoadLocation(zone)
		testkit.Must(t, err)
		w, err := window.Parse(publish)
		testkit.Must(t, err)
		c := &clock{installation: newInstallation(t)}
		c.opt.Zone, c.opt.Window, c.opt.Now = location, w, c.now
		c.opt.Limits.Poll, c.opt.Limits.BackoffMin, c.opt.Limits.BackoffMax = poll, time.Second, time.Minute
		c.open().run()
		f(t, c)
		c.stop()
	})
}

// clock is an installation with a clock that can be set.
type clock struct {
	*installation
	offset  atomic.Int64 // of the wall's clock, in nanoseconds
	batches int64
}

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

// jump moves the wall clock.
func (c *clock) jump(by time.Duration) { c.offset.Add(int64(by)) }

// until waits until the wall clock shows a time.
func (c *clock) until(text string) {
	c.t.Helper()
	d := moment(c.t, text).Sub(c.now())
	if d < 0 {
		c.t.Fatalf("%s is over", text)
	}
	time.Sleep(d)
	synctest.Wait()
}

// bring accepts a batch and waits until it is split.
func (c *clock) bring() *batchtest.Batch {
	c.t.Helper()
	c.batches++
	b := batchtest.Make(c.t, c.robots, c.batches, batchtest.Site("www.example.jp", 1))
	c.accept(b)
	synctest.Wait()
	if r := c.receipt(b); r.State != wire.StatePostSplit && r.State != wire.StatePublished {
		c.t.Fatalf("receipt %+v", r)
	}
	return b
}

func (c *clock) receipt(b *batchtest.Batch) *wire.Receipt {
	c.t.Helper()
	r, err := c.in.Acceptor.Receipt(c.t.Context(), b.ID)
	testkit.Must(c.t, err)
	return r
}

func (c *clock) waits(b *batchtest.Batch) {
	c.t.Helper()
	if r := c.receipt(b); r.State != wire.StatePostSplit {
		c.t.Errorf("at %v the batch is %s, want it to wait", c.now().In(c.opt.Zone), r.State)
	}
}

func (c *clock) published(b *batchtest.Batch, edition string) {
	c.t.Helper()
	if r := c.receipt(b); r.State != wire.StatePublished || r.Edition != edition {
		c.t.Errorf("at %v the batch is %s in edition %q, want it published in %s", c.now().In(c.opt.Zone), r.State, r.Edition, edition)
	}
}

func moment(t testing.TB, text string) time.Time {
	t.Helper()
	m, err := time.Parse(time.RFC3339, text)
	testkit.Must(t, err)
	return m
}

// The window opens and shuts by itself, to the second. The edition is named by the day in the
// service's zone.
func TestWindowOpensAndShuts(t *testing.T) {
	testkit.Slow(t)
	for _, c := range []struct {
		name, zone, window string
		begin              string // when the first batch comes
		opens              string // when it is published
		edition            string
		ends               string // when a second one comes, as the window shuts
		again              string // when that is published
		next               string
	}{
		{"the distributor's hour", "Asia/Tokyo", "12:00-13:00 Asia/Tokyo",
			"2026-11-21T09:10:11+09:00", "2026-11-21T12:00:00+09:00", "20261121",
			"2026-11-21T13:00:00+09:00", "2026-11-22T12:00:00+09:00", "20261122"},
		{"just after midnight", "Asia/Tokyo", "00:00-01:00 Asia/Tokyo",
			"2026-11-21T23:10:11+09:00", "2026-11-22T00:00:00+09:00", "20261122", // still the 21st in UTC
			"2026-11-22T01:00:00+09:00", "2026-11-23T00:00:00+09:00", "20261123"},
		{"up to midnight", "Asia/Tokyo", "23:00-24:00 Asia/Tokyo",
			"2026-11-21T22:10:11+09:00", "2026-11-21T23:00:00+09:00", "20261121",
			"2026-11-22T00:00:00+09:00", "2026-11-22T23:00:00+09:00", "20261122"},
		{"the hour that Berlin leaves out", "Europe/Berlin", "02:00-03:00 Europe/Berlin",
			"2027-03-27T03:30:00+01:00", "2027-03-29T02:00:00+02:00", "20270329",
			"2027-03-29T03:00:00+02:00", "2027-03-30T02:00:00+02:00", "20270330"},
		{"begins in the hour that New York leaves out", "America/New_York", "02:30-03:30 America/New_York",
			"2027-03-14T01:10:00-05:00", "2027-03-14T03:00:00-04:00", "20270314",
			"2027-03-14T03:30:00-04:00", "2027-03-15T02:30:00-04:00", "20270315"},
		{"twice in the night of 25 hours", "Europe/Berlin", "02:15-02:45 Europe/Berlin",
			"2027-10-31T01:10:00+02:00", "2027-10-31T02:15:00+02:00", "20271031",
			"2027-10-31T02:45:00+02:00", "2027-10-31T02:15:00+01:00", "20271031-2"},
		{"another zone than the service's", "Asia/Tokyo", "20:00-21:00 America/New_York",
			"2026-11-21T09:10:11+09:00", "2026-11-20T20:00:00-05:00", "20261121",
			"2026-11-20T21:00:00-05:00", "2026-11-21T20:00:00-05:00", "20261122"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			polled(t, 10*time.Minute, c.zone, c.window, c.begin, func(t *testing.T, k *clock) {
				first := k.bring()
				k.until(moment(t, c.opens).Add(-time.Second).Format(time.RFC3339))
				k.waits(first)
				k.until(c.opens)
				k.published(first, c.edition)
				k.until(c.ends)
				second := k.bring()
				k.waits(second)
				k.until(moment(t, c.again).Add(-time.Second).Format(time.RFC3339))
				k.waits(second)
				k.until(c.again)
				k.published(second, c.next)
			})
		})
	}
}

// A batch that comes while the window is open is published at once, in an edition of that day.
func TestWindowAcrossMidnight(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	clocked(t, "Asia/Tokyo", "23:00-01:00 Asia/Tokyo", "2026-11-21T22:59:00+09:00", func(t *testing.T, k *clock) {
		for _, c := range []struct{ at, edition string }{
			{"2026-11-21T23:30:00+09:00", "20261121"},
			{"2026-11-21T23:59:59+09:00", "20261121-2"},
			{"2026-11-22T00:00:00+09:00", "20261122"},
			{"2026-11-22T00:59:59+09:00", "20261122-2"},
		} {
			k.until(c.at)
			k.published(k.bring(), c.edition)
		}
		k.until("2026-11-22T01:00:00+09:00")
		late := k.bring()
		k.waits(late)
		k.until("2026-11-22T23:00:00+09:00")
		k.published(late, "20261122-3")
	})
}

// If the clock is set forward into the window, or through it, this is noticed within a poll. So is
// one that is set back out of it.
func TestClockJumps(t *testing.T) {
	testkit.Slow(t)
	const poll = time.Minute
	clocked(t, "Asia/Tokyo", "12:00-13:00 Asia/Tokyo", "2026-11-21T06:00:00+09:00", func(t *testing.T, k *clock) {
		one := k.bring()
		k.jump(30 * time.Hour) // into the window of the next day
		time.Sleep(poll)
		synctest.Wait()
		k.published(one, "20261122")

		k.jump(-time.Hour) // 11:01 again
		time.Sleep(poll)
		two := k.bring()
		k.waits(two)
		k.until("2026-11-22T12:00:00+09:00")
		k.published(two, "20261122-2")

		k.jump(-24 * time.Hour) // 12:00 of the day before: the names of editions do not go back
		three := k.bring()
		k.published(three, "20261122-3")
		k.jump(10 * time.Hour) // 22:00: through the end of the window
		time.Sleep(poll)
		four := k.bring()
		k.waits(four)
		k.until("2026-11-22T12:00:00+09:00")
		k.published(four, "20261122-4")

		var last, seq int64
		for _, l := range k.lines("www.example.jp") {
			if l.Seq <= seq || l.Published.UnixMilli() < last {
				t.Errorf("line %d, published %v, follows on %d", l.Seq, l.Published, seq)
			}
			seq, last = l.Seq, l.Published.UnixMilli()
		}
	})
}

// A timer that was set for the opening does not open the window if the clock was set back in the
// meantime.
func TestClockIsSetBackBeforeTheOpening(t *testing.T) {
	clocked(t, "Asia/Tokyo", "12:00-13:00 Asia/Tokyo", "2026-11-21T11:30:00+09:00", func(t *testing.T, k *clock) {
		b := k.bring()
		k.until("2026-11-21T11:59:50+09:00")
		k.jump(-10 * time.Minute)
		time.Sleep(time.Minute)
		synctest.Wait()
		k.waits(b)
		k.until("2026-11-21T11:59:59+09:00")
		k.waits(b)
		k.until("2026-11-21T12:00:00+09:00")
		k.published(b, "20261121")
	})
}

// If the window shuts while a publication is being prepared, it waits for the next one.
func TestWindowShutsBeforeTheAppend(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	clocked(t, "Asia/Tokyo", "12:00-13:00 Asia/Tokyo", "2026-11-21T11:30:00+09:00", func(t *testing.T, k *clock) {
		k.stop()
		var slow atomic.Bool
		k.store = &storetest.Fault{Store: k.store, Decide: func(_, key string) storetest.Outcome {
			if strings.HasPrefix(key, "batches/") && slow.CompareAndSwap(false, true) {
				time.Sleep(2 * time.Hour)
			}
			return storetest.Works
		}}
		k.open().run()
		b := k.bring()
		k.until("2026-11-21T14:30:00+09:00")
		k.waits(b)
		k.until("2026-11-22T12:00:00+09:00")
		k.published(b, "20261122")
	})
}

// A batch that waits after a failure is tried again soon, also if the clock was set back by days.
func TestClockIsSetBackDuringBackOff(t *testing.T) {
	clocked(t, "Asia/Tokyo", "always", "2026-11-21T11:30:00+09:00", func(t *testing.T, k *clock) {
		k.stop()
		var down atomic.Bool
		down.Store(true)
		k.store = &storetest.Fault{Store: k.store, Decide: func(_, key string) storetest.Outcome {
			if strings.HasPrefix(key, "segments/") && down.Load() {
				return storetest.Fails
			}
			return storetest.Works
		}}
		k.open().run()
		b := batchtest.Make(t, k.robots, 1, batchtest.Site("www.example.jp", 1))
		k.accept(b)
		time.Sleep(10 * time.Minute)
		k.jump(-3 * 24 * time.Hour)
		down.Store(false)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		k.published(b, "20261118")
	})
}

// The lease of a process that stands still ends after its time.
func TestLeaseEndsInTime(t *testing.T) {
	clocked(t, "Asia/Tokyo", "always", "2026-11-21T11:30:00+09:00", func(t *testing.T, k *clock) {
		k.stop()
		frozen, let := k.freeze("stage")
		// It only wakes for the batch. At its next poll its publisher would take the lease to
		// publish, stand still before the first write, and keep that lease: freeze does not stop a
		// lease's renewal.
		k.opt.Limits.Poll = time.Hour
		k.open().run()
		b := batchtest.Make(t, k.robots, 1, twoHosts(1)...)
		k.accept(b)
		<-frozen
		k.opt.Boundary, k.opt.Limits.Poll = nil, time.Minute
		other := k.beside().run()
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if row := k.row(b.ID); row.Attempt != 1 {
			t.Errorf("taken over before the lease has ended: %+v", row)
		}
		time.Sleep(4 * time.Minute) // a minute for the lease, a poll for the split, one for the publication
		synctest.Wait()
		if row := k.row(b.ID); row.Attempt != 2 || row.State != wire.StatePublished {
			t.Errorf("after the lease's end: %+v", row)
		}
		let()
		other.once(b)
		other.stop()
	})
}
