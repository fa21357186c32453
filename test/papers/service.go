package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/manager"
	"sheaf/robotd"
	"sheaf/test/servicetest"
)

// names measures how fast URLs are stored and looked up, as Figure 6 of paper 003 does with names
// of hosts. It runs the frontier's benchmark, so it needs the go command.
func names(t testing.TB) []row {
	const of, benchmark = "sheaf/robotd/frontier", "^BenchmarkFrontier$"
	out, err := exec.Command("go", "test", of, "-run", "^$", "-bench", benchmark, "-benchtime", "1x").CombinedOutput()
	if err != nil {
		t.Fatalf("go test %s -bench %s: %v\n%s", of, benchmark, err, out)
	}
	measured := map[string]float64{} // by unit
	words := strings.Fields(string(out))
	for i := 1; i < len(words); i++ {
		if v, err := strconv.ParseFloat(words[i-1], 64); err == nil {
			measured[words[i]] = v
		}
	}
	if measured["ns/push"] == 0 || measured["ns/known"] == 0 {
		t.Fatalf("go test %s -bench %s does not tell what it measured:\n%s", of, benchmark, out)
	}
	differs := "100,000 URLs of the frontier on disk, which survives a kill; the paper's are names in memory"
	return []row{
		{"003", "Fig. 6", "put, names a second", "300,000", thousands(1e9 / measured["ns/push"]), differs},
		{"003", "Fig. 6", "get, names a second", "more than 1,000,000", thousands(1e9 / measured["ns/known"]), "the same; looked up before it is put"},
		{"003", "Fig. 6", "bytes of memory a name", "about 27", fmt.Sprintf("%.0f, and %.0f on disk", measured["B-RAM/URL"], measured["B-disk/URL"]), "the same"},
	}
}

const (
	crews     = 4 // robots
	collected = 60
	siteLinks = 6
)

// site is a web of hosts with equally many pages in a tree.
type site struct {
	size         int // pages of a host
	pages, links atomic.Int64
	http.Server
}

func (s *site) answer(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(strings.Trim(r.URL.Path, "/"))
	if r.URL.Path != "/" && err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	var b strings.Builder
	fmt.Fprintf(&b, "<title>page %d of %s</title>\n", n, r.Host)
	for link := siteLinks*n + 1; link <= siteLinks*n+siteLinks && link < s.size; link++ {
		fmt.Fprintf(&b, "<a href=/%d>page %d</a>\n", link, link)
		s.links.Add(1)
	}
	for line := range 60 {
		fmt.Fprintf(&b, "<p>Line %d of page %d has words that no other page of the %d has.\n", line, n, n*line)
	}
	s.pages.Add(1)
	io.WriteString(w, b.String())
}

// service lets four robots collect a made-up web for a service. The robots and the service are
// Sheaf's own, and run in this process.
func service(t testing.TB) []row {
	web := site{size: 250}
	web.Handler = http.HandlerFunc(web.answer)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	go web.Serve(listener)
	defer web.Close()
	at, urls := map[string]string{}, []string{}
	for n := range collected {
		host := fmt.Sprintf("h%02d.test", n)
		at[host] = listener.Addr().String()
		urls = append(urls, "http://"+host+"/")
	}
	s := start(t)
	var robots []*robotd.Robot
	for n := range crews {
		cfg := s.Join(fmt.Sprintf("r%d", n), at)
		cfg.Interval, cfg.Once = 0, true // one cycle when it is told to, without waiting between two pages
		r, err := robotd.New(cfg, slog.New(slog.DiscardHandler))
		testkit.Must(t, err)
		defer r.Close()
		testkit.Must(t, r.Subscribe(t.Context()))
		robots = append(robots, r)
	}
	s.Operate(http.MethodPost, api.PathAdminHosts, manager.HostsRequest{Hosts: urls}, nil)
	return collect(t, s, &web, robots)
}

// start starts a service that publishes at once and levels no robots.
func start(t testing.TB) *servicetest.Service {
	return servicetest.Start(t, map[string]any{
		"download.listen": "", "drop.listen": "", "poll": "100ms", "publish.window": "always", "balance.during": false,
	})
}

// collect lets the robots collect their hosts and bring the batches, and returns the rows of what
// was measured.
func collect(t testing.TB, s *servicetest.Service, web *site, robots []*robotd.Robot) []row {
	began := time.Now()
	var took time.Duration
	var ends sync.Mutex // guards took
	var g errgroup.Group
	for _, r := range robots {
		g.Go(func() error {
			testkit.Must(t, r.Cycle(t.Context()))
			ends.Lock()
			took = max(took, time.Since(began))
			ends.Unlock()
			return r.Drain(t.Context())
		})
	}
	testkit.Must(t, g.Wait())
	var pages []int64
	sum := int64(0)
	for _, r := range robots {
		st, err := r.Status()
		testkit.Must(t, err)
		pages = append(pages, st.Pages.Total)
		sum += st.Pages.Total
	}
	var doc transfers.Document
	s.Operate(http.MethodGet, api.PathTransfers+"?direction=upload", nil, &doc)
	var rates []float64
	for _, t := range doc.Totals {
		rates = append(rates, t.Rate/1e6)
	}
	slices.Sort(rates)
	if len(rates) == 0 {
		t.Fatal("the service has no record of the robots' uploads")
	}
	all := fmt.Sprintf("%d robots, %d made-up hosts, no interval, all on this machine", len(robots), collected)
	rate := float64(sum) / took.Seconds()
	return []row{
		{"000", "T4.2", "pages and links of all peers", "83,564 and 539,692 in 90 min", fmt.Sprintf("%s and %s in %.1f s", thousands(float64(sum)), thousands(float64(web.links.Load())), took.Seconds()), all},
		{"000", "T4.2", "pages of the peer with most, and with least", "15,470 and 3,492", fmt.Sprintf("%s and %s", thousands(float64(slices.Max(pages))), thousands(float64(slices.Min(pages)))), "the same; equally large hosts"},
		{"001", "T10", "robots to distributor", "404, 306, 55 kB/s", fmt.Sprintf("%.0f–%.0f MB/s", rates[0], rates[len(rates)-1]), "the same; batches over HTTP on loopback, with digests and receipts"},
		{"003", "Fig. 7–9", "pages a second of robots side by side", "on 2, 4 and 8 machines, by the charts; IRLbot 1,789", thousands(rate), "the same; the archive is written and published too"},
	}
}
