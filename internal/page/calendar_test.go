package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
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
		if got := Trap(at, now); got != want {
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
			if c.Endless(address(year, month), i) {
				return i
			}
			c.Saw(address(year, month), i, page(t, address(year, month), text(year, month)))
		}
		return 1000
	}
	empty := func(year, month int) string {
		return fmt.Sprintf("<img src=/head.gif><a href=/>home</a><a href=/cal/%[2]d/%[3]d/9/>9</a><a href=/login?back=/cal/%[2]d/%[3]d/>log in</a> %[1]s %[2]d Su Mo Tu We Th Fr Sa %[4]s no events", months[month-1], year, month, strings.Repeat("1 2 3 ", month))
	}
	pictures := func(year, month int) string {
		return fmt.Sprintf("<h1>%[1]s %[2]d</h1><img src=/img/%[2]d-%[3]d.png>", months[month-1], year, month)
	}
	links := func(year, month int) string {
		return fmt.Sprintf("<h1>%s %d</h1><a href=/trip%d.html>1</a>", months[month-1], year, 1000*year+month)
	}
	titles := func(year, month int) string {
		return fmt.Sprintf("<title>W%sw</title>%s", strings.Repeat("o", 12*(2026-year)+12-month), empty(year, month))
	}
	banners := func(year, month int) string {
		return fmt.Sprintf("<img src=/month%d.gif>%s", month, empty(year, month))
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
		"Japanese": {path, japanese, maxEmpty + 2}, "banners": {path, banners, 12 + maxEmpty + 1},
		"archive": {path, articles, 1000}, "pictures": {path, pictures, 1000}, "links": {path, links, 1000}, "titles": {path, titles, 1000},
		"no calendar": {other, empty, 1000},
	} {
		if got := walk(c.address, c.text); got > c.most || c.most == 1000 && got < 1000 {
			t.Errorf("%s: left after %d pages, want %d", name, got, c.most)
		}
	}
}

// page returns a page with a text.
func page(t testing.TB, at, body string) *Page {
	t.Helper()
	p, err := Links([]byte(body), "text/html; charset=utf-8", "http://h"+at)
	testkit.Must(t, err)
	return p
}

// TestMonthsThatListDays: of an archive whose months only list their days, and whose days have
// nothing but a picture, every page is visited.
func TestMonthsThatListDays(t *testing.T) {
	t.Parallel()
	body := func(at string) string {
		var month, day int
		var links strings.Builder
		n, _ := fmt.Sscanf(at, "/photo/2004/%d/%d.html", &month, &day)
		switch n {
		case 2:
			return fmt.Sprintf("<title>%d.%d.</title><img src=/img/%d-%d.png>", day, month, month, day)
		case 1:
			for day := range 10 {
				fmt.Fprintf(&links, "<a href=%02d.html>%d</a>", day+1, day+1)
			}
		default:
			for month := range 12 {
				fmt.Fprintf(&links, "<a href=/photo/2004/%02d/>%d</a>", month+1, month+1)
			}
		}
		return links.String()
	}
	if got := visit(t, "/", 1000, body); got != 1+12+2*120 {
		t.Errorf("%d pages, want %d", got, 1+12+2*120)
	}
}

// visit visits a site of HTML by its links, each page once, and returns how many there were.
func visit(t testing.TB, top string, most int, body func(at string) string) int {
	t.Helper()
	var calendars Calendars
	var circles Circles
	type entry struct {
		at    string
		depth int
	}
	queue, known := []entry{{top, 0}}, map[string]bool{top: true}
	for n := 0; n < len(queue) && n < most; n++ {
		e := queue[n]
		p := page(t, e.at, body(e.at))
		calendars.Saw(e.at, e.depth, p)
		circles.Saw("http://h"+e.at, p)
		for _, l := range p.Links {
			to := strings.TrimPrefix(l.URL, "http://h")
			if known[to] || Trap(to, time.Now()) != "" || calendars.Endless(to, e.depth+1) || circles.Endless(e.at, to) {
				continue
			}
			known[to] = true
			queue = append(queue, entry{to, e.depth + 1})
		}
	}
	return min(len(queue), most)
}
