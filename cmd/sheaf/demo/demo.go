// Package demo shows the whole of Sheaf on the loopback addresses of one machine: a small web of
// real pages, the service, three robots, two days of collecting, and archives to fetch.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"sheaf/cmd/sheaf/service"
)

// Options of a run.
type Options struct {
	Once bool      // end after the second day, instead of staying up
	Data string    // directory for everything; empty: a temporary one, removed at the end
	Log  io.Writer // of the service and the robots; nil: discards

	Settings map[string]any // of the service, in addition to the demo's own
}

// robots are the demo's robots, named after three sites of paper 001 (docs/papers.md).
var robots = []string{"waseda", "etl", "jaist"}

// notJoined is a robot that is admitted but not yet installed at its site.
const notJoined = "kyushu"

// consumerName and operatorName are the account and the operator that the demo makes.
const (
	consumerName = "demo"
	operatorName = "operator"
)

// Run runs the demo and reports to the Teller. It goes on until ctx ends or, with Once, until the
// report.
func Run(ctx context.Context, opt Options, to Teller) (err error) {
	dir := opt.Data
	if dir == "" {
		if dir, err = os.MkdirTemp("", "sheaf-demo-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	log := slog.New(slog.DiscardHandler)
	if opt.Log != nil {
		log = slog.New(slog.NewTextHandler(opt.Log, nil))
	}
	web, err := startWeb()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, web.stop()) }()

	settings := map[string]any{
		"data": filepath.Join(dir, "service"), "zone": "Asia/Tokyo",
		"http.listen": "127.0.0.1:0", "metrics": "", "download.listen": "127.0.0.1:0", "drop.listen": "127.0.0.1:0",
		"uploads.full":     98,      // the demo is small, and its disk may be fuller than a service's
		"publish.window":   "never", // the demo publishes when all batches of a day are there
		"hosts.suffixes":   []string{"example.jp", "example.ac.jp"},
		"access.anonymous": []string{"example.jp"}, // so that the front page shows an archive to everybody; the rest is for accounts
		"poll":             "200ms", "stop": "2s", "drop.quiet": "1s",
		"balance.at": "", "balance.during": false, // a host that moved would be collected anew, and the second edition would have more than the changes
	}
	maps.Copy(settings, opt.Settings)
	cfg, err := service.Load("", settings)
	if err != nil {
		return err
	}
	s, err := service.New(ctx, cfg, log)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	g, running := errgroup.WithContext(running)
	g.Go(func() error { return s.Run(running) })
	g.Go(func() error {
		defer stop() // with Once: stop the service too
		d := &day{web: web, service: s, dir: dir, log: log, to: to}
		if err := d.prepare(running); err != nil {
			return err
		}
		defer d.close()
		return d.play(running, opt.Once)
	})
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// play collects and publishes two days, and then ends or stays up.
func (d *day) play(ctx context.Context, once bool) error {
	for n := 1; n <= 2; n++ {
		d.web.handler.SetDay(n)
		if err := d.collect(ctx, n); err != nil {
			return err
		}
	}
	bad, err := d.stray(ctx)
	if err != nil {
		return err
	}
	d.to.Tell(Event{Kind: "quarantined", Day: 2, Text: fmt.Sprintf("day 2: batch %s is in the quarantine (%s): release or discard it on the board", bad.ID, bad.Reason)})
	if err := d.report(ctx); err != nil || once {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, r := range d.robots { // they rest until tomorrow, so that the board shows them
		g.Go(func() error { return r.Work(ctx) })
	}
	return g.Wait()
}

// hosts returns the web's addresses for the robots' setting network.hosts.
func (w *web) hosts() map[string]string { return maps.Clone(w.at) }
