package crawl

import (
	"fmt"
	"testing"
	"time"

	"sheaf/internal/window"
)

func TestPredict(t *testing.T) {
	w, err := window.Parse("02:00-08:00 UTC")
	if err != nil {
		t.Fatal(err)
	}
	night := time.Date(2026, 11, 21, 2, 0, 0, 0, time.UTC)
	even := func(n int, pages int64) (loads []Load) {
		for i := range n {
			loads = append(loads, Load{Address: fmt.Sprint(i), Pages: pages, Each: 20 * time.Second})
		}
		return loads
	}
	for _, tt := range []struct {
		name   string
		loads  []Load
		floor  time.Duration
		from   time.Time
		done   time.Time
		fits   int64
		nights int
	}{
		{"in one night", even(10, 180), 0, night, night.Add(time.Hour), 1800, 1},
		{"before the window", even(10, 180), 0, night.Add(-5 * time.Hour), night.Add(time.Hour), 1800, 1},
		{"two nights, by one address", append(even(10, 10), Load{Address: "x", Pages: 1260, Each: 20 * time.Second}), 0, night, night.Add(25 * time.Hour), 100 + 1081, 2},
		{"by the line", even(1000, 10), 3600 * time.Millisecond, night, night.Add(28 * time.Hour), 6001, 2},
		{"from the middle", even(1, 1080), 0, night.Add(3 * time.Hour), night.Add(27 * time.Hour), 541, 2},
	} {
		f := predict(tt.loads, tt.floor, tt.from, w)
		if f == nil || !f.Done.Equal(tt.done) || f.Fits != tt.fits || f.Nights != tt.nights {
			t.Errorf("%s: %+v", tt.name, f)
		}
	}
	if f := predict(nil, 0, night, w); f != nil {
		t.Errorf("nothing left: %+v", f)
	}
	if f := predict(even(1, 10_000_000), 0, night, w); !f.Done.IsZero() || f.Fits != 1081 {
		t.Errorf("longer than a year: %+v", f)
	}
	if f := predict(even(1, 10), 0, night, window.Never()); !f.Done.IsZero() || f.Fits != 0 {
		t.Errorf("never open: %+v", f)
	}
	if f := predict(even(1, 10), 0, night, window.Always()); !f.Done.Equal(night.Add(200*time.Second)) || f.Fits != 10 {
		t.Errorf("always open: %+v", f)
	}
}
