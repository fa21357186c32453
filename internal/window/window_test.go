package window

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

func parse(t *testing.T, text string) *Schedule {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

// 2026-11-21 is a Saturday.
func TestOpenNextUntil(t *testing.T) {
	const (
		tokyo  = "Mon-Fri 02:00-08:00; Sat,Sun 02:00-22:00 Asia/Tokyo"
		lunch  = "Mon-Fri 00:00-12:00,13:00-24:00 Asia/Tokyo"
		night  = "Fri 22:00-06:00 Asia/Tokyo"
		gap    = "Sun 02:00-03:00 Europe/Berlin"
		in     = "02:30-04:00 Europe/Berlin"
		across = "01:00-05:00 Europe/Berlin"
		second = "02:15-02:45 Europe/Berlin"
	)
	for _, c := range []struct {
		name, schedule, at string
		open               bool
		next, until        string
	}{
		{"before", tokyo, "2026-11-20T01:59:59+09:00", false, "2026-11-20T02:00:00+09:00", ""},
		{"start", tokyo, "2026-11-20T02:00:00+09:00", true, "", "2026-11-20T08:00:00+09:00"},
		{"end", tokyo, "2026-11-20T08:00:00+09:00", false, "2026-11-21T02:00:00+09:00", ""},
		{"weekend", tokyo, "2026-11-21T21:59:59.999+09:00", true, "", "2026-11-21T22:00:00+09:00"},
		{"other zone", tokyo, "2026-11-20T17:30:00Z", true, "", "2026-11-21T22:00:00+09:00"},
		{"lunch", lunch, "2026-11-20T12:30:00+09:00", false, "2026-11-20T13:00:00+09:00", ""},
		{"24:00 runs on", lunch, "2026-11-19T23:59:00+09:00", true, "", "2026-11-20T12:00:00+09:00"},
		{"24:00 on friday", lunch, "2026-11-20T23:59:59+09:00", true, "", "2026-11-21T00:00:00+09:00"},
		{"weekend shut", lunch, "2026-11-21T00:00:00+09:00", false, "2026-11-23T00:00:00+09:00", ""},
		{"evening", night, "2026-11-20T23:00:00+09:00", true, "", "2026-11-21T06:00:00+09:00"},
		{"past midnight", night, "2026-11-21T05:59:00+09:00", true, "", "2026-11-21T06:00:00+09:00"},
		{"friday morning", night, "2026-11-20T05:00:00+09:00", false, "2026-11-20T22:00:00+09:00", ""},
		{"a week on", night, "2026-11-21T06:00:00+09:00", false, "2026-11-27T22:00:00+09:00", ""},

		// Berlin 2026: forward on 29 March 02:00 → 03:00, back on 25 October 03:00 → 02:00.
		{"range left out", gap, "2026-03-28T12:00:00+01:00", false, "2026-04-05T02:00:00+02:00", ""},
		{"begins in the gap", in, "2026-03-29T01:59:00+01:00", false, "2026-03-29T03:00:00+02:00", ""},
		{"after the gap", in, "2026-03-29T03:00:00+02:00", true, "", "2026-03-29T04:00:00+02:00"},
		{"over the gap", across, "2026-03-29T01:00:00+01:00", true, "", "2026-03-29T05:00:00+02:00"},
		{"over the repeat", across, "2026-10-25T01:00:00+02:00", true, "", "2026-10-25T05:00:00+01:00"},
		{"first of two", second, "2026-10-25T02:20:00+02:00", true, "", "2026-10-25T02:45:00+02:00"},
		{"between the two", second, "2026-10-25T02:50:00+02:00", false, "2026-10-25T02:15:00+01:00", ""},
		{"second of two", second, "2026-10-25T02:20:00+01:00", true, "", "2026-10-25T02:45:00+01:00"},

		// Samoa had no 30 December 2011, a Friday.
		{"day left out", "Fri 10:00-11:00 Pacific/Apia", "2011-12-29T12:00:00-10:00", false, "2012-01-06T10:00:00+14:00", ""},
		{"always", "always", "2026-11-20T12:30:00+09:00", true, "", ""},
		{"all week", "Mon-Sun 00:00-24:00 Asia/Tokyo", "2026-11-20T12:30:00+09:00", true, "", ""},
		{"never", "never", "2026-11-20T12:30:00+09:00", false, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, when := parse(t, c.schedule), at(t, c.at)
			if got := s.Open(when); got != c.open {
				t.Errorf("Open(%s) = %v", c.at, got)
			}
			next, ok := s.Next(when)
			switch {
			case c.open:
				if !ok || !next.Equal(when) {
					t.Errorf("Next = %v, %v while open", next, ok)
				}
			case c.next == "":
				if ok {
					t.Errorf("Next = %v, want none", next)
				}
			case !ok || !next.Equal(at(t, c.next)):
				t.Errorf("Next = %v, %v, want %s", next, ok, c.next)
			}
			until := s.Until(when)
			switch {
			case !c.open:
				if !until.Equal(when) {
					t.Errorf("Until = %v while closed", until)
				}
			case c.until == "":
				if !until.IsZero() {
					t.Errorf("Until = %v, want no end", until)
				}
			case !until.Equal(at(t, c.until)):
				t.Errorf("Until = %v, want %s", until, c.until)
			}
		})
	}
}

// Next and Until agree with Open in every minute, over both changes of clocks.
func TestAgreesWithOpen(t *testing.T) {
	s := parse(t, "Sat 23:30-02:30; Sun 02:15-02:45,03:00-03:10; Mon 01:00-24:00 Europe/Berlin")
	for _, start := range []string{"2026-03-28T20:00:00Z", "2026-10-24T20:00:00Z"} {
		begin := at(t, start)
		minutes := make([]bool, 2*24*60)
		for i := range minutes {
			minutes[i] = s.Open(begin.Add(time.Duration(i) * time.Minute))
		}
		for i, open := range minutes {
			when := begin.Add(time.Duration(i) * time.Minute)
			found := s.Until(when)
			if !open {
				found, _ = s.Next(when)
			}
			steps := int(found.Sub(when) / time.Minute)
			for j := i; j < min(i+steps, len(minutes)); j++ {
				if minutes[j] != open {
					t.Fatalf("from %v: change at %v missed, %v found", when, begin.Add(time.Duration(j)*time.Minute), found)
				}
			}
			if i+steps < len(minutes) && minutes[i+steps] == open {
				t.Fatalf("from %v: %v is no change", when, found)
			}
		}
	}
}

func TestNilIsAlwaysOpen(t *testing.T) {
	var s *Schedule
	now := time.Now()
	if next, ok := s.Next(now); !s.Open(now) || !ok || !next.Equal(now) || !s.Until(now).IsZero() || s.String() != "always" {
		t.Error("a nil schedule closes")
	}
}

func TestString(t *testing.T) {
	for text, want := range map[string]string{
		"mon-FRI 02:00-08:00 ; sat, sun 02:00 - 22:00 Asia/Tokyo": "Mon-Fri 02:00-08:00; Sat,Sun 02:00-22:00 Asia/Tokyo",
		"Fri-Mon 22:00-06:00":      "Mon,Fri-Sun 22:00-06:00",
		"00:00-12:00, 13:00-24:00": "00:00-12:00,13:00-24:00",
		"18:00-00:00":              "18:00-24:00",
		"00:00-24:00":              "always",
		" Never ":                  "never",
		"01:00-02:00 Etc/GMT-9":    "01:00-02:00 Etc/GMT-9",
	} {
		got := parse(t, text).String()
		if got != want {
			t.Errorf("Parse(%q) = %q, want %q", text, got, want)
		}
		if again := parse(t, got).String(); again != got {
			t.Errorf("%q reads back as %q", got, again)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "empty",
		"Mon":                                 "want days and one list",
		"Mon 2:00-03:00":                      "not a time of day",
		"Mon 02:00":                           "not a range",
		"Mon 02:00-25:00":                     "not a time of day",
		"Mon 24:00-02:00":                     "cannot start at 24:00",
		"Mon 02:00-02:00":                     "whole day is 00:00-24:00",
		"Mond 02:00-03:00":                    "not a day",
		"Mon- 02:00-03:00":                    "not a day",
		"Mon 02:00-03:00 Tokyo":               "not known",
		"Mon 02:00-03:00 Local":               "differs between machines",
		"Mon 02:00-03:00;":                    "rule 2",
		"Mon 02:00-03:00 04:00-05:00":         "want days and one list",
		"01:00-02:00 Asia/Tokyo; 03:00-04:00": "rule 1",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): %v, want %q", text, err, want)
		}
	}
}

func TestJSON(t *testing.T) {
	var v struct{ Window *Schedule }
	const text = `{"Window":"Mon-Fri 02:00-08:00 Asia/Tokyo"}`
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	if out, err := json.Marshal(v); err != nil || string(out) != text {
		t.Errorf("%s, %v", out, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("Mon-Fri 02:00-08:00; Sat,Sun 02:00-22:00 Asia/Tokyo")
	f.Add("22:00-06:00")
	f.Add("always")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(s.String())
		if err != nil || again.String() != s.String() {
			t.Fatalf("%q gives %q, which reads back as %v, %v", text, s, again, err)
		}
	})
}
