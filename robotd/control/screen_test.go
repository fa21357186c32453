package control

import (
	"strings"
	"testing"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/batch"
	"sheaf/robotd/config"
	"sheaf/robotd/crawl"
	"sheaf/robotd/fetch"
	"sheaf/robotd/polite"
)

// sample returns the status of a robot in the middle of its night.
func sample(now time.Time) *Status {
	s := &Status{
		Robot: "waseda", Version: "0.1.0", PID: 4242, Started: now.Add(-3 * time.Hour), At: now,
		Hours:      polite.Hours{Window: "Mon-Fri 02:00-08:00; Sat,Sun 02:00-22:00 Asia/Tokyo", Open: true, Changes: now.Add(90 * time.Minute)},
		Collection: Collection{Generation: 12, Hosts: 1234, Cycle: 7, Began: now.Add(-2 * time.Hour)},
		Progress: crawl.Progress{
			Forecast:  &crawl.Forecast{Pages: 22010, Fits: 20113, Nights: 2, Done: now.Add(26 * time.Hour), Slowest: crawl.Load{Address: "192.0.2.4", Host: "xn--wgv71a119e.jp", Pages: 5200, Each: 20 * time.Second}},
			Addresses: 900, Waiting: 1200, Visited: 37, LeftOut: 2, Unreached: []string{"xn--wgv71a119e.jp", "gone.example.ac.jp"},
			Pages: crawl.Rate{Total: 41204, PerMinute: 312}, Bytes: crawl.Rate{Total: 1_234_567_890, PerMinute: 4_100_000},
			Modules: []crawl.Module{{Name: "fetch", Queue: 12, Workers: 100, Passed: crawl.Rate{Total: 42000, PerMinute: 320}, Each: 183456789}},
		},
		Stored: Stored{Lost: map[string]int64{"failed": 1200}},
		Clock:  &wire.Clock{OffsetMS: -45, ErrorMS: 130},
		Hands:  []fetch.Hand{{Name: "cellar-2", Version: "0.1.0", Since: now.Add(-90 * time.Minute), Turns: 31, Most: 1000, Pages: 20602, Bytes: 600_000_000}},
		Spool:  []Batch{{ID: "waseda-20261121T175319Z-1", Bytes: 36e6, Made: now.Add(-5 * time.Hour)}},
	}
	for i, name := range []string{
		"www.long-name-of-an-institute.example-university.ac.jp", "xn--wgv71a119e.jp", "xn--eckwd4c7cu47r2wf.jp:8080",
		"xn--\u202etxt.jp", "xn--mgbh0fb.xn--kgbechtv",
	} {
		s.PerHost = append(s.PerHost, crawl.HostStatus{
			Name: name, Address: "192.0.2.4", State: []crawl.HostState{crawl.Visiting, crawl.Waits, crawl.LeftOut, crawl.Done}[i%4],
			Pages: crawl.Rate{Total: int64(i) * 12345, PerMinute: 3}, Left: 987654, Next: now.Add(time.Duration(i) * time.Hour),
		})
	}
	return s
}

// TestScreenFits: on any terminal no line is too wide and, if it has a height, there are not too
// many lines.
func TestScreenFits(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 0, 0, 0, time.Local)
	for width := 40; width <= 200; width += 7 {
		for _, height := range []int{24, 50} {
			text := Screen{Width: width, Height: height, Running: true, Now: now}.Render(sample(now))
			lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			for _, line := range lines {
				if n := columns(line); n > width {
					t.Errorf("width %d: %d columns: %s", width, n, line)
				}
			}
			if len(lines) >= height && width >= 80 {
				t.Errorf("width %d: %d lines for a height of %d", width, len(lines), height)
			}
		}
	}
}

// TestScreenNames: Japanese names are shown in their own script, and columns are still aligned.
func TestScreenNames(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 0, 0, 0, time.Local)
	text := Screen{Width: 80, Running: true, Now: now}.Render(sample(now))
	for _, want := range []string{"日本語.jp", "ドメイン名例.jp:8080", "2 left out: 日本語.jp", "NOT finished", "1,200 failed", "312/min", "180ms", "cellar-2 31 1,000 20,602"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(text, "\u202e") {
		t.Error("a name turns the terminal's direction")
	}
	at := -1
	for line := range strings.Lines(text[strings.Index(text, "HOST "):]) {
		before, _, ok := strings.Cut(line, map[bool]string{true: "987,654", false: "LEFT"}[at >= 0])
		if end := columns(before) + map[bool]int{true: 7, false: 4}[at >= 0]; ok && at >= 0 && end != at {
			t.Errorf("the column ends at %d, not at %d: %s", end, at, line)
		} else if at < 0 {
			at = end
		}
	}
}

// TestScreenStates: what matters most comes first.
func TestScreenStates(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 0, 0, 0, time.Local)
	for want, change := range map[string]func(*Status, *Screen){
		"state visiting":                          func(*Status, *Screen) {},
		"state does not run":                      func(_ *Status, v *Screen) { v.Running = false },
		"this is what it said 1h 00m ago":         func(s *Status, v *Screen) { v.Running, s.At = false, now.Add(-time.Hour) },
		"state makes no progress trouble module":  func(s *Status, _ *Screen) { s.Troubles = []string{"module fetch"} },
		"state paused since 01:00":                func(s *Status, _ *Screen) { s.Paused = now.Add(-time.Hour) },
		"37 pages are being finished":             func(s *Status, _ *Screen) { s.Paused = now },
		"state all done; the next cycle begins":   func(s *Status, _ *Screen) { s.Next.Cycle = now.Add(time.Hour) },
		"state waiting for the window":            func(s *Status, _ *Screen) { s.Open = false },
		"state the limit of bytes is reached":     func(s *Status, _ *Screen) { s.Budget = now.Add(time.Hour) },
		"NOT to be finished within a year":        func(s *Status, _ *Screen) { s.Forecast.Done = time.Time{} },
		"not visited; done about 03:00":           func(s *Status, _ *Screen) { s.Forecast.Fits, s.Forecast.Done = 22010, now.Add(time.Hour) },
		"warning batch waits":                     func(s *Status, _ *Screen) { s.Warnings = []string{"batch waits"} },
		"1 consumer; 2 records dropped":           func(s *Status, _ *Screen) { s.Tap = &TapStatus{Consumers: 1, Dropped: 2} },
		"window closed, opens 03:30 (in 1h 30m);": func(s *Status, _ *Screen) { s.Open = false },
	} {
		s, v := sample(now), Screen{Running: true, Now: now}
		change(s, &v)
		if text := strings.Join(strings.Fields(v.Render(s)), " "); !strings.Contains(text, want) {
			t.Errorf("%q is missing in %s", want, text)
		}
	}
}

// TestScreenUploads: the screen shows why batches have not arrived, and the progress of the current
// one.
func TestScreenUploads(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 0, 0, 0, time.Local)
	s := sample(now)
	s.Spool[0].To, s.Spool[0].Sent, s.Spool[0].Rate = "https://sheaf.test", 9e6, 1e6
	s.Spool = append(s.Spool, Batch{ID: "waseda-2", Error: "507 no room", Next: now.Add(10 * time.Minute)})
	s.Targets = []config.TargetState{{Name: "https://sheaf.test"}, {Name: "ftps://sheaf.test", Failures: 3, Error: "login \x1b[2Jrefused", Failed: now.Add(-time.Minute), Again: now.Add(time.Hour)}}
	s.Managers = []config.TargetState{{Name: "https://one.test", Failures: 1, Error: "timeout", Failed: now}}
	text := strings.Join(strings.Fields(Screen{Width: 100, Running: true, Now: now}.Render(s)), " ")
	for _, want := range []string{"(25 %)", "27s left", "to https://sheaf.test", "delayed waseda-2: 507 no room; again 02:10", "target ftps://sheaf.test failed 3 times", `login \x1b[2Jrefused`, "manager https://one.test failed 1 time"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestScreenWaits: the screen says of all that is collected and not published what it waits for,
// and until when.
func TestScreenWaits(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 0, 0, 0, time.Local)
	s := sample(now)
	s.Segments, s.Sealing = 5e6, 7e6
	s.Spool[0].Next = now.Add(20 * time.Minute)
	s.Spool = append(s.Spool, Batch{ID: "waseda-2", State: "post-split", Next: now.Add(time.Minute)})
	text := strings.Join(strings.Fields(Screen{Width: 100, Running: true, Now: now}.Render(s)), " ")
	for _, want := range []string{
		"7.0 MB are being made into a batch; 5.0 MB collected for the next, at the latest when the window closes 03:30 (in 1h 30m)",
		"waits waseda-20261121T175319Z-1: to be sent 02:20 (in 20m 00s)",
		"waits waseda-2: the service has it (post-split) and publishes it; asked again 02:01",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestScreenCoverage: the screen shows what became of the cycle's pages, with reasons, and what is
// postponed.
func TestScreenCoverage(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 0, 0, 0, time.Local)
	s := sample(now)
	s.Coverage = &crawl.Coverage{
		Pages: 36000, Unchanged: 5000, Answers: 204, Left: 22010, Why: map[string]int64{"window": 22000, "host": 10}, Later: 1500,
		Lost: batch.Reasons{"failed": {"timeout": 8, "503": 4, "dns": 2, "reset": 1}, "refused": {"robots.txt": 3}},
	}
	text := strings.Join(strings.Fields(Screen{Width: 100, Running: true, Now: now}.Render(s)), " ")
	for _, want := range []string{"covered 36,000 pages taken, 5,000 unchanged, 204 other answers", "15 failed: 8 timeout, 4 503, 2 dns, …", "3 refused: 3 robots.txt",
		"22,010 not reached yet: 22,000 window, 10 host", "1,500 put off to later cycles"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
