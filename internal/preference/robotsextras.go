package preference

import (
	"iter"
	"strconv"
	"strings"
	"time"
)

// hours has what a robots.txt file says beyond RFC 9309: Crawl-delay, and Request-rate and
// Visit-time from Sean Conner's draft of 1996, "An Extended Standard for Robot Exclusion". They
// apply to the user-agent lines directly above them. As they are no rules they do not end a group
// of rules (RFC 9309, 2.2.4), so they are stored apart from the groups.
type hours struct {
	agents []string // as in group
	delay  time.Duration
	visits []span // times of the day, in UTC; empty: all day
}

// span is a part of the day, including both ends, such as "0600-0845". It may cross midnight.
type span struct{ from, to time.Duration }

func (h *hours) read(key, value string) {
	switch key {
	case "crawl-delay":
		h.delay = max(h.delay, parseDelay(value))
	case "request-rate":
		h.delay = max(h.delay, parseRate(value))
	case "visit-time":
		if s, ok := parseSpan(value); ok {
			h.visits = append(h.visits, s)
		}
	}
}

func (r *Robots) hoursOf(agent string) iter.Seq[*hours] {
	return chosen(r.hours, agent, func(h *hours) []string { return h.agents })
}

// CrawlDelay returns the time between two visits that the agent's group asks for; zero if it asks
// for no delay.
func (r *Robots) CrawlDelay(agent string) time.Duration {
	var delay time.Duration
	for h := range r.hoursOf(agent) {
		delay = max(delay, h.delay)
	}
	return delay
}

// parseRate parses "1/10m", one document in ten minutes, as the time between two documents. It
// ignores a time of day behind that, so the limit holds all day.
func parseRate(s string) time.Duration {
	s, _, _ = strings.Cut(s, " ")
	count, period, ok := strings.Cut(s, "/")
	n, err := strconv.ParseFloat(count, 64)
	if !ok || err != nil || !(n > 0) {
		return 0
	}
	unit := 1.0
	switch {
	case strings.HasSuffix(period, "s"):
		period = strings.TrimSuffix(period, "s")
	case strings.HasSuffix(period, "m"):
		period, unit = strings.TrimSuffix(period, "m"), 60
	case strings.HasSuffix(period, "h"):
		period, unit = strings.TrimSuffix(period, "h"), 3600
	}
	t, err := strconv.ParseFloat(period, 64)
	if err != nil || !(t > 0) {
		return 0
	}
	return parseDelay(strconv.FormatFloat(t*unit/n, 'f', -1, 64))
}

// parseSpan parses "0600-0845".
func parseSpan(s string) (span, bool) {
	first, last, ok := strings.Cut(s, "-")
	from, ok1 := parseClock(strings.TrimSpace(first))
	to, ok2 := parseClock(strings.TrimSpace(last))
	return span{from, to}, ok && ok1 && ok2
}

func parseClock(s string) (time.Duration, bool) {
	n, err := strconv.Atoi(s)
	if err != nil || len(s) != 4 || n < 0 || n/100 > 23 || n%100 > 59 {
		return 0, false
	}
	return time.Duration(n/100)*time.Hour + time.Duration(n%100)*time.Minute, true
}

// VisitAt returns the first time, from now on, at which the agent's group allows visits. If the
// group has no visit times, that is now.
func (r *Robots) VisitAt(agent string, now time.Time) time.Time {
	var best time.Time
	for h := range r.hoursOf(agent) {
		for _, v := range h.visits {
			at := v.next(now)
			if best.IsZero() || at.Before(best) {
				best = at
			}
		}
	}
	if best.IsZero() {
		return now
	}
	return best
}

func (s span) next(now time.Time) time.Time {
	utc := now.UTC()
	midnight := time.Date(utc.Year(), utc.Month(), utc.Day(), 0, 0, 0, 0, time.UTC)
	clock := utc.Sub(midnight)
	end := s.to + time.Minute // "0845" lasts until 08:45:59
	inside := s.from <= clock && clock < end
	if s.to < s.from {
		inside = clock >= s.from || clock < end
	}
	switch {
	case inside:
		return now
	case clock < s.from:
		return midnight.Add(s.from)
	}
	return midnight.Add(24*time.Hour + s.from)
}
