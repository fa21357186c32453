package robotd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/robotd/config"
)

// Variables of the environment with which the test's binary runs as a robot, or as a hand.
const (
	killedEnv = "ROBOTD_TEST_RUN_AS_ROBOT" // the file of the robot's settings
	handEnv   = "ROBOTD_TEST_RUN_AS_HAND"  // host:port of the hand's head
	passEnv   = "ROBOTD_TEST_PASS"         // the file of the hand's pass
)

func TestMain(m *testing.M) {
	run := runAsRobot
	switch {
	case os.Getenv(handEnv) != "":
		run = runAsHand
	case os.Getenv(killedEnv) == "":
		testkit.Waiting()
		os.Exit(m.Run())
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runAsRobot() error {
	var cfg config.Config
	if err := config.LoadJSON(os.Getenv(killedEnv), &cfg); err != nil {
		return err
	}
	ctx, cancel := contextForChild()
	defer cancel()
	if dir := os.Getenv(profileEnv); dir != "" {
		stop := profile(dir)
		defer stop()
	}
	defer HoldMemory(cfg.Memory.Limit)()
	return Run(ctx, cfg, slog.New(slog.DiscardHandler))
}

func runAsHand() error {
	pass, err := os.ReadFile(os.Getenv(passEnv))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg := DefaultConfig()
	cfg.Network.AllowPrivate = true
	return Hand(ctx, cfg, os.Getenv(handEnv), pass, 1000, slog.New(slog.DiscardHandler))
}

// startRobot runs the test's own binary as a robot.
func startRobot(t testing.TB, cfg config.Config) *testkit.Process {
	t.Helper()
	settings, err := json.Marshal(cfg)
	testkit.Must(t, err)
	file := filepath.Join(t.TempDir(), "settings.json")
	testkit.Must(t, os.WriteFile(file, settings, 0o600))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killedEnv+"="+file)
	return testkit.Start(t, "", cmd)
}

// mortalWeb is hosts on addresses of their own that remember in which of the robot's
// lives each page was asked for.
type mortalWeb struct {
	hosts, pages int
	addrs        map[string]string // by host

	mu        sync.Mutex // guards all below
	visits    map[string][]visit
	total     int
	strangers int           // requests for what there is not
	halt      chan struct{} // pages are given when it is closed; nil: at once
	held      int           // pages that wait for that
}

type visit struct {
	url  string
	life int
}

func newMortalWeb(t testing.TB, hosts, pages int) *mortalWeb {
	w := &mortalWeb{hosts: hosts, pages: pages, addrs: make(map[string]string), visits: make(map[string][]visit)}
	srv := &http.Server{Handler: w, ErrorLog: log.New(io.Discard, "", 0)}
	t.Cleanup(func() { srv.Close() })
	for i := range hosts {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.%d.%d:0", 21+(i+1)/256, (i+1)%256))
		if err != nil {
			t.Fatal(err)
		}
		go srv.Serve(l)
		w.addrs[w.host(i)] = l.Addr().String()
	}
	return w
}

func (w *mortalWeb) host(i int) string { return fmt.Sprintf("h%d.mortal.test", i%w.hosts) }

// ServeHTTP gives pages that link to two others of their host and to the same page of the next.
func (w *mortalWeb) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	var n, host, life int
	if _, err := fmt.Sscanf(r.URL.Path, "/%d.html", &n); err != nil && r.URL.Path != "/" || n >= w.pages {
		w.mu.Lock()
		w.strangers++
		w.mu.Unlock()
		http.NotFound(out, r)
		return
	}
	fmt.Sscanf(r.Host, "h%d.", &host)
	_, agent, _ := strings.Cut(r.UserAgent(), "sheaf.test/life")
	fmt.Sscan(strings.TrimRight(agent, ")"), &life)
	w.mu.Lock()
	w.visits[r.Host] = append(w.visits[r.Host], visit{"http://" + r.Host + r.URL.Path, life})
	w.total++
	halt := w.halt
	if halt != nil {
		w.held++
	}
	w.mu.Unlock()
	if halt != nil {
		select {
		case <-halt:
		case <-r.Context().Done():
			return
		}
	}
	out.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(out, "<title>%s %d</title><a href=/>top</a>", r.Host, n)
	for i := 2*n + 1; i <= 2*n+2 && i < w.pages; i++ {
		fmt.Fprintf(out, "<a href=/%d.html>%d</a><a href=http://%s/%d.html>next</a>", i, i, w.host(host+1), i)
	}
	fmt.Fprintf(out, "<p>%s", strings.Repeat(fmt.Sprintf("%x ", n*n), n%200))
}

func (w *mortalWeb) fetched() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total
}

// hold keeps back all pages until goOn, and returns when some are in hand.
func (w *mortalWeb) hold(t *testing.T) {
	w.mu.Lock()
	w.halt, w.held = make(chan struct{}), 0
	w.mu.Unlock()
	testkit.Until(t, "pages in hand", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.held > 0
	})
}

func (w *mortalWeb) goOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.halt != nil {
		close(w.halt)
		w.halt = nil
	}
}

// again counts the pages that were fetched more than once. Each time must have its
// kill: the page was the last that was asked for on its host in an earlier life, which is
// the one in hand.
func (w *mortalWeb) again(t *testing.T) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, visits := range w.visits {
		slices.SortStableFunc(visits, func(a, b visit) int { return a.life - b.life })
		last := make(map[string]int) // of each page, where in visits
		for i, v := range visits {
			before, met := last[v.url]
			last[v.url] = i
			if !met {
				continue
			}
			n++
			if visits[before].life == v.life || visits[before+1].life == visits[before].life {
				t.Errorf("%s was fetched in life %d and again in life %d, and was not in hand when the robot was killed", v.url, visits[before].life, v.life)
			}
		}
	}
	return n
}

func (s *service) arrived() int {
	return len(s.all())
}

// A robot is killed again and again in the middle of its crawl and of its uploads. In the
// end every page is in the batches once, none was fetched again but the one in hand of each
// host, and the chain of manifests has no gap.
//
// With SHEAF_TEST_FULL=1 it is 20,000 pages on 100 hosts and 75 kills.
func TestKill(t *testing.T) {
	testkit.Slow(t)
	t.Parallel() // it mostly waits for batches
	hosts, pages, kills, size := 6, 100, 8, int64(60_000)
	if testkit.Full() {
		hosts, pages, kills, size = 100, 200, 75, 300_000
	}
	w := newMortalWeb(t, hosts, pages)
	var seeds []string
	for host := range w.addrs {
		seeds = append(seeds, "http://"+host+"/")
	}
	s := newService(t, seeds...)
	cfg := testConfig(t, s, w.addrs)
	cfg.Batch.Size = size      // some batches are made under way
	cfg.Cycle = 24 * time.Hour // no midnight ends it
	cfg.Concurrency = hosts
	cfg.Once = false
	random := testkit.Random(t)
	for life := range kills {
		cfg.Contact = fmt.Sprintf("https://sheaf.test/life%d", life)
		before := s.arrived()
		robot := startRobot(t, cfg)
		switch life % 5 {
		case 1: // with pages in hand, when a batch was made and has arrived
			testkit.Until(t, "a part of the pages", func() bool { return w.fetched() >= (life+1)*hosts*pages/(kills+2) })
			w.hold(t)
			testkit.Until(t, "a batch", func() bool { return s.arrived() > before })
		case 3: // perhaps while it starts
			testkit.Moment(random, 200*time.Millisecond)
		default:
			testkit.Until(t, "a part of the pages", func() bool { return w.fetched() >= (life+1)*hosts*pages/(kills+2) })
		}
		robot.Kill()
		w.goOn()
	}
	if missing := hosts*pages - w.fetched(); missing <= 0 {
		t.Errorf("all pages were fetched before the last kill")
	}
	cfg.Contact, cfg.Once = fmt.Sprintf("https://sheaf.test/life%d", kills), true
	if err := startRobot(t, cfg).Ended(); err != nil {
		t.Fatal(err)
	}
	archived := make(map[string]int)
	for i, b := range s.all() {
		if id := string(b.manifest.Batch); !strings.HasSuffix(id, fmt.Sprintf("-%d", i+1)) {
			t.Errorf("batch %d is %s: there is a gap", i+1, id)
		}
		for host := range w.addrs {
			for url := range s.cells(i, host) {
				archived[url]++
			}
		}
	}
	for host := range w.addrs {
		for n := range pages {
			url := fmt.Sprintf("http://%s/%d.html", host, n)
			if n == 0 {
				url = "http://" + host + "/"
			}
			if archived[url] != 1 {
				t.Errorf("%s is in the batches %d times", url, archived[url])
			}
		}
	}
	if len(archived) != hosts*pages {
		t.Errorf("%d pages are in the batches, want %d", len(archived), hosts*pages)
	}
	t.Logf("%d pages, %d kills, %d batches, %d pages fetched again", len(archived), kills, s.arrived(), w.again(t))
}

// contextForChild bounds a robot whose test went away.
func contextForChild() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 20*time.Minute)
}

// asked is what a host's server saw.
type asked struct {
	at     []time.Time // of the requests for pages
	robots int
}

// watchKills kills a robot again and again, each time once it has noted what the answer that says
// gave asks for, and returns what the site saw.
func watchKills(t *testing.T, first, robots string, says func(body int) *answer) asked {
	t.Helper()
	w := newWeb(t, first, 1, 1, 6)
	cfg := testConfig(t, newService(t, w.seeds()...), nil)
	cfg.Network.Resolver = w.names.LocalAddr().String()
	var seen asked
	came := make(chan int64, 100)
	w.tell(func(_, uri string, _ int) *answer {
		w.mu.Lock()
		defer w.mu.Unlock()
		if uri == "/robots.txt" {
			seen.robots++
			return &answer{http.StatusOK, http.Header{"Content-Type": {"text/plain"}}, []byte(robots)}
		}
		seen.at = append(seen.at, time.Now())
		came <- noted(cfg)
		return says(len(seen.at))
	})
	for range 3 {
		robot := startRobot(t, cfg)
		before := testkit.Receive(t, "a visit", came)
		testkit.Until(t, "a note of what was asked for", func() bool { return noted(cfg) > before })
		robot.Kill()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return seen
}

// What a server asked for holds over a kill: Retry-After, Crawl-delay and the patience after a
// failure; and robots.txt is not asked for again.
func TestKilledRobotKeepsItsManners(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, addr, robots string
		says               func(body int) *answer
		least              time.Duration
	}{
		{"Retry-After", "127.44.0.1", "", func(int) *answer {
			return &answer{http.StatusServiceUnavailable, http.Header{"Retry-After": {"2"}}, nil}
		}, 2 * time.Second},
		{"Crawl-delay", "127.44.0.2", "User-agent: *\nCrawl-delay: 1.5\n", func(int) *answer { return nil }, 1500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			seen := watchKills(t, tt.addr, tt.robots, tt.says)
			for i := 1; i < len(seen.at); i++ {
				if gap := seen.at[i].Sub(seen.at[i-1]); gap < tt.least {
					t.Errorf("visit %d came %v after the one before, want at least %v", i+1, gap, tt.least)
				}
			}
			if len(seen.at) < 3 || seen.robots != 1 {
				t.Errorf("%d visits, robots.txt asked for %d times; want 3 and 1", len(seen.at), seen.robots)
			}
		})
	}
}

// Without a word from the server, a robot that was killed waits as long as it would have.
func TestKilledRobotBacksOff(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	w := newWeb(t, "127.45.0.1", 1, 1, 1)
	cfg := testConfig(t, newService(t, w.seeds()...), nil)
	cfg.Interval = 40 * time.Millisecond
	cfg.Network.Resolver = w.names.LocalAddr().String()
	came, before := make(chan time.Time, 100), make(chan int64, 100)
	w.tell(func(_, uri string, _ int) *answer {
		if uri == "/robots.txt" {
			return nil
		}
		before <- noted(cfg)
		came <- time.Now()
		return &answer{http.StatusServiceUnavailable, nil, nil}
	})
	robot := startRobot(t, cfg)
	began := testkit.Receive(t, "a visit", came)
	was := testkit.Receive(t, "the notes before it", before)
	testkit.Until(t, "a note of the failure", func() bool { return noted(cfg) > was })
	robot.Kill()
	startRobot(t, cfg)
	if gap := testkit.Receive(t, "another visit", came).Sub(began); gap < 15*cfg.Interval {
		t.Errorf("the page was asked for again after %v, want at least %v", gap, 15*cfg.Interval)
	}
}

// noted is the length of the file in which a robot keeps when it may come again; it grows with
// each note.
func noted(cfg config.Config) int64 {
	file, err := os.Stat(filepath.Join(cfg.DataDir, "restraints"))
	if err != nil {
		return 0
	}
	return file.Size()
}
