package robotd

import (
	"context"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// spooledCoverage is what the manifests in the spool say of a host, and the last of them for
// levels.
func spooledCoverage(t *testing.T, r *Robot, host string) (sum wire.Coverage) {
	t.Helper()
	spool, err := r.records.Batches.Spool()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range spool {
		m, err := wire.PeekManifest(b.Signed)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range m.Coverage {
			if h.Host == host {
				sum.Collected, sum.Unchanged = sum.Collected+h.Collected, sum.Unchanged+h.Unchanged
				sum.Left, sum.LeftWhy, sum.Later, sum.Truncated = h.Left, h.LeftWhy, h.Later, h.Truncated
			}
		}
		if err := r.records.Batches.Remove(b.ID); err != nil {
			t.Fatal(err)
		}
	}
	return sum
}

// TestEveryKnownPageIsAccountedFor: a night has room for some 60 of 201 pages. Each night, what was
// visited, what the window closed before, and what was put off to another night are together all
// that is known.
func TestEveryKnownPageIsAccountedFor(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const days, pages = 5, 201 // with the top page
	c := newChanging(make([]float64, pages-1), 0, 0)
	var put []int64
	nights(t, tightConfig(t), days, c.ServeHTTP, func(r *Robot, day int) {
		got := spooledCoverage(t, r, "www.a.test")
		all := got.Collected + got.Unchanged + got.Left + got.Later
		if all != pages {
			t.Errorf("night %d accounts for %d of %d pages: %+v", day+1, all, pages, got)
		}
		if got.Left > 0 && got.LeftWhy != "window" {
			t.Errorf("night %d: %d are left for want of %q", day+1, got.Left, got.LeftWhy)
		}
		put = append(put, got.Later)
		st, err := r.status(0)
		if err != nil || st.Coverage == nil || st.Coverage.Pages != got.Collected || st.Coverage.Unchanged != got.Unchanged ||
			st.Coverage.Left != got.Left || st.Coverage.Later != got.Later {
			t.Errorf("night %d: the status says %+v, the batch %+v, %v", day+1, st.Coverage, got, err)
		}
	})
	if put[len(put)-1] < pages/2 {
		t.Errorf("put off by night: %v; when all are known most must be", put)
	}
}

// TestPutOffOverRestart: a robot that starts anew in the middle of its night still knows what it
// had put off.
func TestPutOffOverRestart(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	c := newChanging(make([]float64, 200), 0, 0)
	cfg := tightConfig(t)
	nights(t, cfg, 6, c.ServeHTTP, func(r *Robot, day int) {
		spooledCoverage(t, r, "www.a.test")
		if day < 5 {
			return
		}
		time.Sleep(time.Until(nextCycle(t, r)))
		for _, long := range []time.Duration{5 * time.Minute, time.Hour} { // it is stopped within the window, and goes on
			ctx, stop := context.WithTimeout(t.Context(), long)
			err := r.Cycle(ctx)
			stop()
			if long == time.Hour && err != nil {
				t.Fatal(err)
			}
		}
		got := spooledCoverage(t, r, "www.a.test")
		if all := got.Collected + got.Unchanged + got.Left + got.Later; all != 201 || got.Later == 0 {
			t.Errorf("after a restart %d of 201 pages are accounted for: %+v", all, got)
		}
	})
}
