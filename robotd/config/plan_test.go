package config

import (
	"testing"
	"time"

	"sheaf/internal/window"
)

func TestPlan(t *testing.T) {
	night, err := window.Parse("Mon-Fri 02:00-08:00; Sat,Sun 02:00-22:00 Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	at := func(s string) time.Time {
		t.Helper()
		v, err := time.ParseInLocation("2006-01-02 15:04", s, night.Location())
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	daily := Plan{Window: night, LogAt: 9 * time.Hour}
	hourly := Plan{Window: night, Every: time.Hour}
	for _, tt := range []struct {
		name         string
		plan         Plan
		began, ended string
		want         string
	}{
		{"the next night", daily, "2026-11-20 02:00", "2026-11-20 05:00", "2026-11-21 02:00"},
		{"a cycle of three nights", daily, "2026-11-16 02:00", "2026-11-18 06:00", "2026-11-18 06:00"},
		{"ended when the window was closed", daily, "2026-11-16 02:00", "2026-11-18 09:00", "2026-11-19 02:00"},
		{"began before midnight in the zone", daily, "2026-11-20 23:59", "2026-11-20 23:59", "2026-11-21 02:00"},
		{"every hour", hourly, "2026-11-20 02:00", "2026-11-20 02:10", "2026-11-20 03:00"},
		{"every hour, overrun", hourly, "2026-11-20 02:00", "2026-11-20 03:10", "2026-11-20 03:10"},
		{"every hour, closed by then", hourly, "2026-11-20 07:30", "2026-11-20 07:40", "2026-11-21 02:00"},
	} {
		got, ok := tt.plan.NextCycle(at(tt.began), at(tt.ended))
		if !ok || !got.Equal(at(tt.want)) {
			t.Errorf("%s: %v, %t; want %s", tt.name, got, ok, tt.want)
		}
	}
	if _, ok := (Plan{Window: window.Never()}).NextCycle(time.Now(), time.Now()); ok {
		t.Error("a window that never opens has a next cycle")
	}
	for now, want := range map[string]string{
		"2026-11-20 08:59": "2026-11-20 09:00",
		"2026-11-20 09:00": "2026-11-21 09:00",
		"2026-11-30 23:00": "2026-12-01 09:00",
	} {
		if got := daily.NextLog(at(now)); !got.Equal(at(want)) {
			t.Errorf("NextLog(%s) = %v, want %s", now, got, want)
		}
	}
	if _, err := ParseClock("9 o'clock"); err == nil {
		t.Error("ParseClock took 9 o'clock")
	}
}
