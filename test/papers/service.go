package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	programs "sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/transfers"
	"sheaf/manager"
	"sheaf/robotd"
	"sheaf/robotd/config"
	"sheaf/serve/client"
)

// names measures how fast URLs are stored and looked up, as Figure 6 of paper 003 does with names
// of hosts. It runs the frontier's benchmark, so it needs the go command.
func names() ([]row, error) {
	const of, benchmark = "sheaf/robotd/frontier", "^BenchmarkFrontier$"
	out, err := exec.Command("go", "test", of, "-run", "^$", "-bench", benchmark, "-benchtime", "1x").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go test %s -bench %s: %w\n%s", of, benchmark, err, out)
	}
	measured := map[string]float64{} // by unit
	words := strings.Fields(string(out))
	for i := 1; i < len(words); i++ {
		if v, err := strconv.ParseFloat(words[i-1], 64); err == nil {
			measured[words[i]] = v
		}
	}
	if measured["ns/push"] == 0 || measured["ns/known"] == 0 {
		return nil, fmt.Errorf("go test %s -bench %s does not tell what it measured:\n%s", of, benchmark, out)
	}
	differs := "100,000 URLs of the frontier on disk, which survives a kill; the paper's are names in memory"
	return []row{
		{"003", "Fig. 6", "put, names a second", "300,000", thousands(1e9 / measured["ns/push"]), differs},
		{"003", "Fig. 6", "get, names a second", "more than 1,000,000", thousands(1e9 / measured["ns/known"]), "the same; looked up before it is put"},
		{"003", "Fig. 6", "bytes of memory a name", "about 27", fmt.Sprintf("%.0f, and %.0f on disk", measured["B-RAM/URL"], measured["B-disk/URL"]), "the same"},
	}, nil
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
func service() (rows []row, err error) {
	dir, err := os.MkdirTemp("", "papers")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	web := site{size: 250}
	web.Handler = http.HandlerFunc(web.answer)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go web.Serve(listener)
	defer web.Close()
	at, urls := map[string]string{}, []string{}
	for n := range collected {
		host := fmt.Sprintf("h%02d.test", n)
		at[host] = listener.Addr().String()
		urls = append(urls, "http://"+host+"/")
	}

	quiet := slog.New(slog.DiscardHandler)
	operator, end, err := start(ctx, dir, quiet)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	var robots []*robotd.Robot
	for n := range crews {
		r, err := join(ctx, operator, fmt.Sprintf("r%d", n), dir, at, quiet)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		robots = append(robots, r)
	}
	if err := operator.Do(ctx, http.MethodPost, api.PathAdminHosts, manager.HostsRequest{Hosts: urls}, nil); err != nil {
		return nil, err
	}
	return collect(ctx, operator, &web, robots)
}

// start starts a service in a folder. end stops the service.
func start(ctx context.Context, dir string, log *slog.Logger) (operator *client.Client, end func() error, err error) {
	cfg, err := programs.Load("", map[string]any{
		"data": filepath.Join(dir, "service"), "http.listen": "127.0.0.1:0", "metrics": "", "download.listen": "", "drop.listen": "", "stop": "1s",
		"poll": "100ms", "publish.window": "always", "balance.at": "", "balance.during": false, "uploads.full": 100,
	})
	if err != nil {
		return nil, nil, err
	}
	s, err := programs.New(ctx, cfg, log)
	if err != nil {
		return nil, nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	end = func() error {
		stop()
		return <-ended
	}
	operator, err = client.Operator(s.Addresses().HTTP, s.OperatorToken())
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return operator, end, nil
}

// join makes a robot of the service that does one cycle when it is told to, without waiting between
// two pages.
func join(ctx context.Context, operator *client.Client, name, dir string, at map[string]string, log *slog.Logger) (*robotd.Robot, error) {
	cfg, err := settings(ctx, operator, name, dir, at)
	if err != nil {
		return nil, err
	}
	r, err := robotd.New(cfg, log)
	if err != nil {
		return nil, err
	}
	return r, r.Subscribe(ctx)
}

// settings lets such a robot join, and returns its settings.
func settings(ctx context.Context, operator *client.Client, name, dir string, at map[string]string) (config.Config, error) {
	var admitted manager.AdmitResponse
	if err := operator.Do(ctx, http.MethodPost, api.PathAdminRobots, manager.AdmitRequest{Name: name}, &admitted); err != nil {
		return config.Config{}, err
	}
	cfg := robotd.DefaultConfig()
	cfg.DataDir, cfg.Contact = filepath.Join(dir, name), "https://robots.example.ac.jp/"
	cfg.Window, cfg.Adapt.Max, cfg.Interval, cfg.Once = "always", 0, 0, true
	cfg.Network.Hosts, cfg.Network.AllowPrivate = at, true
	cfg.Upload.Poll = 100 * time.Millisecond
	_, err := robotd.Join(ctx, operator.URL.String(), admitted.Token, cfg.DataDir)
	return cfg, err
}

// collect lets the robots collect their hosts and bring the batches, and returns the rows of what
// was measured.
func collect(ctx context.Context, operator *client.Client, web *site, robots []*robotd.Robot) ([]row, error) {
	began := time.Now()
	var took time.Duration
	var ends sync.Mutex // guards took
	var g errgroup.Group
	for _, r := range robots {
		g.Go(func() error {
			if err := r.Cycle(ctx); err != nil {
				return err
			}
			ends.Lock()
			took = max(took, time.Since(began))
			ends.Unlock()
			return r.Drain(ctx)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var pages []int64
	sum := int64(0)
	for _, r := range robots {
		st, err := r.Status()
		if err != nil {
			return nil, err
		}
		pages = append(pages, st.Pages.Total)
		sum += st.Pages.Total
	}
	var doc transfers.Document
	if err := operator.Do(ctx, http.MethodGet, api.PathTransfers+"?direction=upload", nil, &doc); err != nil {
		return nil, err
	}
	var rates []float64
	for _, t := range doc.Totals {
		rates = append(rates, t.Rate/1e6)
	}
	slices.Sort(rates)
	if len(rates) == 0 {
		return nil, errors.New("the service has no record of the robots' uploads")
	}
	all := fmt.Sprintf("%d robots, %d made-up hosts, no interval, all on this machine", len(robots), collected)
	rate := float64(sum) / took.Seconds()
	return []row{
		{"000", "T4.2", "pages and links of all peers", "83,564 and 539,692 in 90 min", fmt.Sprintf("%s and %s in %.1f s", thousands(float64(sum)), thousands(float64(web.links.Load())), took.Seconds()), all},
		{"000", "T4.2", "pages of the peer with most, and with least", "15,470 and 3,492", fmt.Sprintf("%s and %s", thousands(float64(slices.Max(pages))), thousands(float64(slices.Min(pages)))), "the same; equally large hosts"},
		{"001", "T10", "robots to distributor", "404, 306, 55 kB/s", fmt.Sprintf("%.0f–%.0f MB/s", rates[0], rates[len(rates)-1]), "the same; batches over HTTP on loopback, with digests and receipts"},
		{"003", "Fig. 7–9", "pages a second of robots side by side", "on 2, 4 and 8 machines, by the charts; IRLbot 1,789", thousands(rate), "the same; the archive is written and published too"},
	}, nil
}
