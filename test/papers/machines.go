package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/manager"
	"sheaf/robotd"
	"sheaf/robotd/config"
	"sheaf/robotd/control"
)

// The web of charts, which is spread over many addresses, and the line of each machine in bytes a
// second. Such narrow lines let one machine play eight.
const (
	doors     = 240
	doorPages = 25
	line      = 500_000
)

// charts measures how fast a robot with 2, 4 and 8 hands collects (Figures 7 to 9 of paper 003).
func charts(t testing.TB) (rows []row) {
	differs := fmt.Sprintf("one robot whose hands fetch, search and deflate; all on this machine, so each hand has a line of %d kB/s only; %d made-up hosts on as many addresses, no interval", line/1000, doors)
	for i, n := range []int{2, 4, 8} {
		var rate float64
		_, err := testkit.Perform(t.Context(), fmt.Sprint(n, " hands"), func(t testing.TB) { rate = withHands(t, n) })
		testkit.Must(t, err)
		rows = append(rows, row{"003", fmt.Sprint("Fig. ", 7+i), fmt.Sprintf("pages a second with %d hands", n), "by the chart", thousands(rate), differs})
		differs = "the same"
	}
	return rows
}

// withHands returns the pages a second of a robot with n hands.
func withHands(t testing.TB, n int) (rate float64) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	web := site{size: doorPages}
	var first, last atomic.Int64 // in nanoseconds since 1970
	web.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first.CompareAndSwap(0, time.Now().UnixNano())
		web.answer(w, r)
		last.Store(time.Now().UnixNano())
	})
	defer web.Close()
	at, urls := map[string]string{}, []string{}
	for i := range doors {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.90.%d:0", i+1))
		testkit.Must(t, err)
		go web.Serve(l)
		host := fmt.Sprintf("h%03d.test", i)
		at[host], urls = l.Addr().String(), append(urls, "http://"+host+"/")
	}
	quiet := slog.New(slog.DiscardHandler)
	operator := start(t)
	cfg := operator.Join("head", at)
	cfg.Interval, cfg.Once = 0, true
	operator.Operate(http.MethodPost, api.PathAdminHosts, manager.HostsRequest{Hosts: urls}, nil)
	hands := serve(ctx, t, &cfg, n, quiet)
	defer hands.Wait()
	defer stop()
	testkit.Must(t, runWith(ctx, cfg, n, quiet))
	if got := web.pages.Load(); got < doors*doorPages {
		t.Fatalf("%d pages of %d were collected", got, doors*doorPages)
	}
	return float64(web.pages.Load()) / time.Duration(last.Load()-first.Load()).Seconds()
}

// runWith runs a robot for one cycle, which begins when n hands are connected.
func runWith(ctx context.Context, cfg config.Config, n int, log *slog.Logger) error {
	monitor := control.NewMonitor(cfg.DataDir)
	if _, err := monitor.SetPaused(ctx, true); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- robotd.Run(ctx, cfg, log) }()
	for {
		select {
		case err := <-ended:
			return errors.Join(errors.New("the robot has ended early"), err)
		case <-time.After(100 * time.Millisecond):
		}
		s, running, err := monitor.Status(ctx, 0)
		if err == nil && running && len(s.Hands) == n { // it may not be there yet
			break
		}
	}
	if _, err := monitor.SetPaused(ctx, false); err != nil {
		return err
	}
	return <-ended
}

// serve starts hands of the robot with these settings, until ctx ends.
func serve(ctx context.Context, t testing.TB, cfg *config.Config, n int, log *slog.Logger) *sync.WaitGroup {
	l, err := net.Listen("tcp", "127.0.0.1:0") // finds an address
	testkit.Must(t, err)
	cfg.Hands.Listen = l.Addr().String()
	testkit.Must(t, l.Close())
	var hands sync.WaitGroup
	for i := range n {
		pass, err := robotd.InviteHand(*cfg, fmt.Sprint("hand", i))
		testkit.Must(t, err)
		own := robotd.DefaultConfig()
		own.Network.AllowPrivate, own.Limits.Bandwidth = true, line
		hands.Go(func() { _ = robotd.Hand(ctx, own, cfg.Hands.Listen, pass, 1000, log) }) // without it the figure is low
	}
	return &hands
}
