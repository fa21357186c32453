package control

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/net/idna"
	"golang.org/x/text/width"
)

// count formats a number as 1,234,567.
func count(n int64) string {
	if n < 0 {
		return "-" + count(-n)
	}
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// plural formats "1 host", "2 hosts".
func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// Size formats bytes as 1.5 MB.
func Size(n int64) string {
	const k = 1000
	if n < k {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n), 0
	for f >= 999.5 && unit < 5 {
		f /= k
		unit++
	}
	if f < 9.95 {
		return fmt.Sprintf("%.1f %cB", f, " kMGTP"[unit])
	}
	return fmt.Sprintf("%.0f %cB", f, " kMGTP"[unit])
}

// span formats a duration for people, in at most its two largest units.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0fs", d.Truncate(time.Second).Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm %02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh %02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d days", (d+12*time.Hour)/(24*time.Hour))
}

// clock formats a time with the weekday or the date, unless it is today.
func clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	away := t.Sub(now).Abs()
	switch {
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return t.Format("15:04")
	case away < 6*24*time.Hour:
		return t.Format("Mon 15:04")
	}
	return t.Format("2006-01-02 15:04")
}

// until formats a future time and how far away it is.
func until(t, now time.Time) string {
	if wait := t.Sub(now); wait <= 0 {
		return "now"
	} else if wait < time.Minute {
		return "in " + span(wait)
	}
	return fmt.Sprintf("%s (in %s)", clock(t, now), span(t.Sub(now)))
}

// readable returns a host's name in its own script, if it is valid.
func readable(host string) string {
	name, port, _ := strings.Cut(host, ":")
	u, err := idna.Display.ToUnicode(name)
	if err != nil || strings.ContainsFunc(u, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return host
	}
	if port != "" {
		u += ":" + port
	}
	return u
}

// columns returns the width of a text on a terminal. East Asian wide characters have two columns.
func columns(s string) (n int) {
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

func runeColumns(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// fit cuts a text to limit columns, of which the last is then "…".
func fit(s string, limit int) string {
	if columns(s) <= limit {
		return s
	}
	for i, r := range s {
		if limit -= runeColumns(r); limit < 1 {
			return s[:i] + "…"
		}
	}
	return s
}

// pad adds spaces after a text, up to a width in columns.
func pad(s string, to int) string { return s + strings.Repeat(" ", max(0, to-columns(s))) }
