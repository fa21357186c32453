package robotd

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// The shared folder's traps and faults, next to a host that has none: each costs a
// bounded number of visits and bytes, and the host is collected whole.
//
// The traps' host asks for two seconds between visits, which is the minute that this takes with
// SHEAF_TEST_FULL=1. Else its robots.txt is another one, without a Crawl-delay.
func TestTraps(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	t.Parallel()
	sites := t.TempDir()
	const pages = 12
	for _, host := range []string{"good.test", "slow.test", "hang.test", "cut.test", "reset.test"} {
		dir := filepath.Join(sites, host)
		testkit.Must(t, os.Mkdir(dir, 0o755))
		var links strings.Builder
		for i := range pages {
			name := string(rune('a'+i)) + ".html"
			links.WriteString("<a href=" + name + ">x</a>\n")
			testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte("<p>"+host+name+strings.Repeat(" words", 300)), 0o644))
		}
		testkit.Must(t, os.WriteFile(filepath.Join(dir, "index.html"), []byte(links.String()), 0o644))
	}
	testkit.Must(t, os.WriteFile(filepath.Join(sites, "good.test", "of-the-traps.txt"), []byte("User-agent: *\nDisallow: /private/\n"), 0o644))
	port, log := portOf(t, testkit.Addresses(t, 1)[0]), filepath.Join(t.TempDir(), "log")
	hosts := map[string]string{
		"good.test": "127.70.0.1", "slow.test": "127.70.0.2", "hang.test": "127.70.0.3",
		"cut.test": "127.70.0.4", "reset.test": "127.70.0.5", "trap.test": "127.70.0.6",
	}
	var listen, seeds []string
	for host, ip := range hosts {
		hosts[host] = net.JoinHostPort(ip, port)
		listen = append(listen, hosts[host])
		seeds = append(seeds, "http://"+host+"/")
	}
	args := []string{
		"-sites", sites, "-listen", strings.Join(listen, ","), "-log", log, "-rule", "slow.test /b.html bw=5",
		"-rule", "hang.test /b.html hang=60s", "-rule", "cut.test /b.html truncate=0.5", "-rule", "reset.test /b.html reset=1",
	}
	s := newService(t, seeds...)
	cfg := testConfig(t, s, hosts)
	cfg.Page.Timeout, cfg.Page.Stall = 2*time.Second, time.Second
	if !testkit.Full() {
		args = append(args, "-rule", "trap.test /robots.txt redirect=http://good.test/of-the-traps.txt")
	}
	startVhostd(t, args...)
	cfg.Page.MaxBytes = 2 << 20
	cfg.Page.MaxPerHost, cfg.Page.MaxDepth = 24, 12
	if err := Run(t.Context(), cfg, testLog(t)); err != nil {
		t.Fatal(err)
	}
	for host := range hosts {
		if n := len(s.cells(0, host)); host != "trap.test" && n < pages || n == 0 {
			t.Errorf("%d pages of %s were collected", n, host)
		}
	}
	visits := make(map[string]int)
	data, err := os.ReadFile(log)
	testkit.Must(t, err)
	for line := range strings.Lines(string(data)) {
		if f := strings.Split(line, "\t"); len(f) > 6 {
			visits[f[4]]++
			if f[4] == "trap.test" {
				first, _, _ := strings.Cut(strings.TrimPrefix(f[6], "/"), "/")
				first, _, _ = strings.Cut(first, "?")
				visits["trap.test/"+first]++
			}
		}
	}
	t.Logf("visits: %v", visits)
	if n := visits["trap.test"]; n > cfg.Page.MaxPerHost+30 {
		t.Errorf("%d visits to the traps", n)
	}
	if visits["trap.test/private"] != 0 || visits["trap.test/deep"] > 8 || visits["trap.test/bomb"] != 1 || visits["trap.test/endless"] != 1 {
		t.Errorf("visits to the traps: %v", visits)
	}
}

// TestEndlessCalendarIsLeft: a calendar whose every page links to the next month, to the month a
// year before and to a day takes a few visits of its host, and is counted.
func TestEndlessCalendarIsLeft(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, newService(t), map[string]string{"www.a.test": "192.0.2.1:80"})
	cfg.Interval, cfg.Window = time.Second, "02:00-08:00 UTC"
	var mu sync.Mutex
	calendar, pages := 0, 0
	nights(t, cfg, 1, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		var year, month int
		switch n, _ := fmt.Sscanf(r.URL.Path, "/cal/%d/%d", &year, &month); {
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case n == 2:
			calendar++
			fmt.Fprintf(w, "<title>%d/%d</title><a href=/cal/%d/%d/>x</a><a href=/cal/%d/%d/>x</a><a href=/cal/%d/%d/%d>x</a>",
				year, month, year+month/12, month%12+1, year-1, month, year, month, 1+month)
		case r.URL.Path == "/":
			fmt.Fprint(w, "<a href=/cal/2004/1/>calendar</a>")
			fallthrough
		default:
			pages++
			linkTo(w, 5)
		}
	}, nil)
	if calendar > 30 || pages != 6 {
		t.Errorf("%d visits to the calendar, want at most 30; %d pages, want 6", calendar, pages)
	}
	t.Logf("%d visits to the calendar", calendar)
}
