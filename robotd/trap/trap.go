// Package trap tells URLs that a program makes without end from those that lead to
// pages: paths that repeat themselves, calendars that go on for ever, parameters that
// pile up. What it lets pass is still bounded by a host's limits of depth, length
// and pages.
package trap

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Bounds of what a person would have made.
const (
	maxRepeats    = 3    // of one to four segments of a path, one after the other
	maxSame       = 6    // segments of one path that are alike, wherever they stand
	maxParameters = 20   // of a query
	maxSameName   = 8    // parameters of one name
	firstYear     = 1800 // of a calendar
	yearsAhead    = 3
)

var (
	pathDate  = regexp.MustCompile(`/(\d{4,6})[/-](\d{1,2})([/-](\d{1,2}))?(/|-|\.|$)`)
	queryYear = regexp.MustCompile(`^(?:y|yr|year|nen)=(\d{4,})$`)
	queryDate = regexp.MustCompile(`^[a-z_]*(?:date|day|month|cal)[a-z_]*=(\d{4,6})-\d{1,2}`)
)

// Check returns why a URL's path and query look endless, or nothing.
func Check(pathQuery string, now time.Time) (why string) {
	path, query, _ := strings.Cut(pathQuery, "?")
	switch {
	case strings.Count(path, "/") >= maxRepeats && repeats(strings.Split(strings.Trim(path, "/"), "/")):
		return "path_repeats"
	case endlessCalendar(path, query, now):
		return "calendar"
	case pilesUp(query):
		return "parameters"
	}
	return ""
}

// repeats reports whether a path goes in circles, as relative links of a page that is served
// under every path do.
func repeats(segments []string) bool {
	same := make(map[string]int, len(segments))
	for _, s := range segments {
		if same[s]++; same[s] > maxSame {
			return true
		}
	}
	for width := 1; width <= 4; width++ {
		run := 0 // segments in a row that are like the one a width before
		for i := width; i < len(segments); i++ {
			if segments[i] != segments[i-width] || segments[i] == "" {
				run = 0
			} else if run++; run >= maxRepeats*width {
				return true
			}
		}
	}
	return false
}

// endlessCalendar reports whether a URL names a month of a year that nobody keeps a page for.
func endlessCalendar(path, query string, now time.Time) bool {
	beyond := func(text string) bool {
		year, err := strconv.Atoi(text)
		return err != nil || year < firstYear || year > now.Year()+yearsAhead
	}
	if hasYear(path) {
		if m := pathDate.FindStringSubmatch(path); m != nil {
			month, _ := strconv.Atoi(m[2])
			if month >= 1 && month <= 12 && beyond(m[1]) && plausible(m[1], now) {
				return true
			}
		}
	}
	if !hasYear(query) {
		return false
	}
	for p := range strings.SplitSeq(strings.ToLower(query), "&") {
		if m := queryYear.FindStringSubmatch(p); m != nil && beyond(m[1]) {
			return true
		} else if m := queryDate.FindStringSubmatch(p); m != nil && beyond(m[1]) {
			return true
		}
	}
	return false
}

// hasYear reports whether there are four digits in a row: most links have none, and are not worth an expression.
func hasYear(text string) bool {
	run := 0
	for i := range len(text) {
		if c := text[i]; c < '0' || c > '9' {
			run = 0
		} else if run++; run == 4 {
			return true
		}
	}
	return false
}

// plausible keeps numbers that only look like years, of articles or shelves, from being
// taken for a calendar's: a walk through the months meets every year on its way, so
// that it is enough to stop it within the next centuries.
func plausible(text string, now time.Time) bool {
	year, err := strconv.Atoi(text)
	return err == nil && year > firstYear-100 && year < now.Year()+200
}

// pilesUp reports whether a query grows from link to link.
func pilesUp(query string) bool {
	if query == "" {
		return false
	}
	names := make(map[string]int)
	n := 0
	for p := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(p, "=")
		names[name]++
		if n++; n > maxParameters || names[name] > maxSameName {
			return true
		}
	}
	return false
}
