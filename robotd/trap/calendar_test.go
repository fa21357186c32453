package trap

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestRealAddresses: maps, images, history and choices are no traps, though they are written in
// numbers.
func TestRealAddresses(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for at, want := range map[string]string{
		"/map?x=3500&y=13800":          "",
		"/map?x=3500&y=2150":           "",
		"/img?w=800&y=1024":            "",
		"/chronicle?year=1750":         "",
		"/chronicle?year=1750&month=3": "",
		"/film?year=2199":              "",
		"/w/0/0/0/0/0":                 "",
		"/w/1/0/1/0/1/0/1/0/1/0":       "",
		"/tiles/12/2050/3.png":         "",
		"/tiles/2050/12.png":           "",
		"/archive/1755/11/01.html":     "",
		"/archive/1755/11/":            "",
		"/day?date=1868-01":            "",
		"/a/0/a/0/a/0/a/0/":            "path_repeats",
		"/cal?y=2031&m=1":              Calendar,
		"/cal?year=2031&month=01":      Calendar,
		"/cal/2031/1/":                 Calendar,
		"/cal/2031-1.html":             Calendar,
	} {
		if got := Check(at, now); got != want {
			t.Errorf("Check(%s) = %q, want %q", at, got, want)
		}
	}
}

// TestEmptyCalendarsEnd: a calendar without entries is left after a few pages, however it is
// addressed; an archive by date is not, even if some of its months are empty.
func TestEmptyCalendarsEnd(t *testing.T) {
	t.Parallel()
	months := []string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}
	walk := func(address, text func(year, month int) string) int {
		var c Calendars
		for i := range 1000 {
			year, month := 2026-i/12, 12-i%12
			if c.Endless(address(year, month)) {
				return i
			}
			c.Saw(address(year, month), text(year, month))
		}
		return 1000
	}
	empty := func(year, month int) string {
		return fmt.Sprintf("%s %d Su Mo Tu We Th Fr Sa %s no events", months[month-1], year, strings.Repeat("1 2 3 ", month))
	}
	japanese := func(year, month int) string {
		return fmt.Sprintf("%d年%d月の予定 日月火水木金土 予定はありません", year, month)
	}
	articles := func(year, month int) string {
		if month%4 != 0 {
			return empty(year, month)
		}
		return fmt.Sprintf("%s The %s excursion to %s", empty(year, month), strings.Repeat("very ", month), strings.Repeat("o", year-1900))
	}
	path := func(year, month int) string { return fmt.Sprintf("/cal/%d/%d/", year, month) }
	days := func(year, month int) string { return fmt.Sprintf("/cal/%d-%02d-01.html", year, month) }
	query := func(year, month int) string { return fmt.Sprintf("/cal.cgi?m=%d&year=%d", month, year) }
	other := func(year, month int) string { return fmt.Sprintf("/item/%d?page=%d", year*100+month, month) }
	for name, c := range map[string]struct {
		address, text func(year, month int) string
		most          int
	}{
		"path": {path, empty, maxEmpty + 2}, "days": {days, empty, maxEmpty + 2}, "query": {query, empty, maxEmpty + 2},
		"Japanese": {path, japanese, maxEmpty + 2}, "archive": {path, articles, 1000}, "no calendar": {other, empty, 1000},
	} {
		if got := walk(c.address, c.text); got > c.most || c.most == 1000 && got < 1000 {
			t.Errorf("%s: left after %d pages, want %d", name, got, c.most)
		}
	}
}
