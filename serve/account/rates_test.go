package account_test

import (
	"testing"
	"time"

	"sheaf/serve/account"
)

func TestRatesSayWhatHolds(t *testing.T) {
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	office := "1MiB Mon-Fri 09:00-18:00 Asia/Tokyo | 10MiB"
	// On 29 March 2026 clocks in Berlin jump from 02:00 to 03:00; on 25 October they show 02:00 to
	// 03:00 twice.
	night := "unlimited 01:30-02:30 Europe/Berlin | 64KiB"
	for _, c := range []struct {
		rates string
		at    time.Time
		want  int64 // 0: no limit
	}{
		{"4096", time.Unix(0, 0), 4096},
		{"1.5MiB/s", time.Unix(0, 0), 3 << 19},
		{"unlimited", time.Unix(0, 0), 0},
		{office, time.Date(2026, 11, 20, 9, 0, 0, 0, tokyo), 1 << 20}, // a Friday
		{office, time.Date(2026, 11, 20, 18, 0, 0, 0, tokyo), 10 << 20},
		{office, time.Date(2026, 11, 21, 12, 0, 0, 0, tokyo), 10 << 20},
		{"1MiB 09:00-18:00", time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC), 0},
		{night, time.Date(2026, 3, 29, 1, 59, 0, 0, berlin), 0},
		{night, time.Date(2026, 3, 29, 0, 59, 0, 0, time.UTC).Add(2 * time.Minute), 64 << 10}, // 03:01
		{night, time.Date(2026, 10, 25, 0, 10, 0, 0, time.UTC), 0},                            // 02:10, the first time
		{night, time.Date(2026, 10, 25, 0, 40, 0, 0, time.UTC), 64 << 10},
		{night, time.Date(2026, 10, 25, 1, 10, 0, 0, time.UTC), 0}, // and the second
	} {
		r, err := account.ParseRates(c.rates)
		if err != nil {
			t.Fatal(err)
		}
		if got, limited := r.At(c.at); got != c.want || limited != (c.want > 0) {
			t.Errorf("%s at %v: %d, %v", c.rates, c.at, got, limited)
		}
		again, err := account.ParseRates(r.String())
		if err != nil || again.String() != r.String() {
			t.Errorf("%q is written as %q, which reads as %v, %v", c.rates, r, again, err)
		}
	}
	for _, text := range []string{"", "fast", "-1", "1000", "1MB", "NaN", "1e300", "10MiB Mon", "1MiB 9-18 Mars/Olympus", "10MiB |"} {
		if r, err := account.ParseRates(text); err == nil {
			t.Errorf("%q reads as %v", text, r)
		}
	}
}

func FuzzParseRates(f *testing.F) {
	f.Add("1MiB Mon-Fri 09:00-18:00 Asia/Tokyo | unlimited")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := account.ParseRates(text)
		if err != nil {
			return
		}
		again, err := account.ParseRates(r.String())
		if err != nil || again.String() != r.String() {
			t.Errorf("%q is written as %q, which reads as %v, %v", text, r, again, err)
		}
	})
}
