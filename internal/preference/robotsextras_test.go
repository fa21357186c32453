package preference

import (
	"fmt"
	"testing"
	"time"
)

func TestRequestRate(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"1/5": 5 * time.Second, "1/5s": 5 * time.Second, "1/10m": 10 * time.Minute, "2/1h": 30 * time.Minute,
		"1/30 0600-0845": 30 * time.Second, "0/5": 0, "x/5": 0, "1": 0, "1/-5": 0, "1/1000000h": MaxCrawlDelay,
	} {
		r := ParseRobots(fmt.Appendf(nil, "User-agent: *\nRequest-rate: %s\nCrawl-delay: 0\n", value))
		if got := r.CrawlDelay("bot"); got != want {
			t.Errorf("Request-rate: %s gave %v, want %v", value, got, want)
		}
	}
}

func TestVisitTime(t *testing.T) {
	const text = "User-agent: bot\nVisit-time: 0600-0845\nVisit-time: 2300-0100\nUser-agent: *\nVisit-time: 9999-0000\nDisallow:\n"
	r := ParseRobots([]byte(text))
	at := func(clock string) time.Time {
		t.Helper()
		c, err := time.Parse("15:04:05", clock)
		if err != nil {
			t.Fatal(err)
		}
		return time.Date(2026, 11, 21, c.Hour(), c.Minute(), c.Second(), 0, time.UTC)
	}
	for now, want := range map[string]time.Time{
		"05:59:59": at("06:00:00"), "06:00:00": at("06:00:00"), "08:45:59": at("08:45:59"),
		"08:46:00": at("23:00:00"), "23:30:00": at("23:30:00"), "00:30:00": at("00:30:00"), "01:01:00": at("06:00:00"),
	} {
		zone := time.FixedZone("", 9*3600) // the zone of the robot has no effect
		if got := r.VisitAt("bot", at(now).In(zone)); !got.Equal(want) {
			t.Errorf("at %s: %v, want %v", now, got, want)
		}
	}
	if got := r.VisitAt("other", at("12:00:00")); !got.Equal(at("12:00:00")) {
		t.Errorf("an invalid time closed the host until %v", got)
	}
}

func TestRobotsTag(t *testing.T) {
	for _, tt := range []struct {
		values []string
		want   Tag
	}{
		{nil, Tag{}},
		{[]string{"noindex"}, Tag{NoIndex: true}},
		{[]string{"NoArchive, nofollow"}, Tag{NoArchive: true, NoFollow: true}},
		{[]string{"none"}, Tag{NoIndex: true, NoFollow: true}},
		{[]string{"noarchive", "none"}, Tag{true, true, true}},
		{[]string{"otherbot: noindex, nofollow"}, Tag{}},
		{[]string{"otherbot: noindex", "nofollow"}, Tag{NoFollow: true}},
		{[]string{"Bot: noindex, nofollow"}, Tag{NoIndex: true, NoFollow: true}},
		{[]string{"noindex, unavailable_after: 25 Jun 2010 15:00:00 PST"}, Tag{NoIndex: true}},
		{[]string{"unavailable_after: 25 Jun 2010 15:00:00 PST"}, Tag{}},
		{[]string{"max-snippet: 20, noarchive"}, Tag{NoArchive: true}},
		{[]string{"index, follow, all"}, Tag{}},
	} {
		if got := ReadTag(tt.values, "bot/1.0 (+http://h/)"); got != tt.want {
			t.Errorf("%q: %+v, want %+v", tt.values, got, tt.want)
		}
	}
}

// Groups are compared by the whole product token: "bot" does not match "botany".
func TestDelayGroups(t *testing.T) {
	r := ParseRobots([]byte("User-agent: bot\nCrawl-delay: 5\nUser-agent: botany\nCrawl-delay: 50\nUser-agent: bot\nCrawl-delay: 7\n"))
	if got := r.CrawlDelay("bot/2"); got != 7*time.Second {
		t.Errorf("delay %v, want the longest of the agent's groups", got)
	}
}
