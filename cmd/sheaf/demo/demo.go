// Package demo shows the whole of Sheaf on the loopback addresses of one machine: a small web of
// real pages, the service, three robots, two days of collecting, and archives to fetch.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/archive/catalog"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/transfers"
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

// Event is a step of the demo.
type Event struct {
	Kind     string        `json:"event"` // ready, collecting, progress, collected, waiting, published, quarantined
	Text     string        `json:"text"`  // for people
	Day      int           `json:"day,omitempty"`
	Edition  string        `json:"edition,omitempty"`
	Pages    int           `json:"pages,omitempty"`
	Took     time.Duration `json:"took,omitempty"`    // nanoseconds
	HTTP     string        `json:"http,omitempty"`    // URL
	FTP      string        `json:"ftp,omitempty"`     // host:port
	Account  string        `json:"account,omitempty"` // for HTTP and FTP
	Password string        `json:"password,omitempty"`
}

// Report is the result of the demo: what was transferred, what is published, and how to fetch it.
type Report struct {
	HTTP             string                `json:"http"`
	FTP              string                `json:"ftp"`
	Account          string                `json:"account"`
	Password         string                `json:"password"`
	Operator         string                `json:"operator"`
	OperatorPassword string                `json:"operator_password"`
	Data             string                `json:"data"`
	Transfers        []transfers.TotalLine `json:"transfers"`
	Editions         []api.Edition         `json:"editions"`
}

// Teller is told what the demo does. Its methods are called concurrently; the demo waits until they
// return.
type Teller interface {
	Tell(Event)
	Report(Report)
}

// JSON returns a Teller that writes lines of JSON. The line of the report has no "event".
func JSON(w io.Writer) Teller { return jsonTeller{json.NewEncoder(&locked{w: w})} }

type jsonTeller struct{ e *json.Encoder }

func (t jsonTeller) Tell(e Event)    { t.e.Encode(e) }
func (t jsonTeller) Report(r Report) { t.e.Encode(r) }

// Text returns a Teller that writes for people.
func Text(w io.Writer) Teller { return textTeller{&locked{w: w}} }

type textTeller struct{ w io.Writer }

func (t textTeller) Tell(e Event) { fmt.Fprintln(t.w, e.Text) }

func (t textTeller) Report(r Report) {
	fmt.Fprintf(t.w, `
Look at it

  %[1]s/        what everybody sees; log in at %[1]s/login
    as a reader      %[2]s  with password  %[3]s
    as an operator   %[4]s  with password  %[5]s
  %[1]s/board/  the operators' board; a batch in the quarantine waits there for a decision
`, r.HTTP, r.Account, r.Password, r.Operator, r.OperatorPassword)
	fmt.Fprint(t.w, "\nTransfer rates\n\n")
	transfers.WriteTable(t.w, r.Transfers)
	fmt.Fprint(t.w, "\nPublished\n\n")
	for _, e := range r.Editions {
		fmt.Fprintf(t.w, "  edition %-12s %d hosts, %d records, %d bytes; all of jp: /days/%s/jp\n", e.Name, e.Hosts, e.Records, e.Bytes, catalog.DayOf(e.Name))
	}
	fmt.Fprintf(t.w, `
Fetch it

  HTTP   %[1]s/pub/
  FTP    ftp://%[2]s/
  as     %[3]s with password %[4]s

  lftp -u %[3]s,%[4]s ftp://%[2]s -e 'mirror /jp; exit'
  wget -c --user %[3]s --password %[4]s %[1]s/pub/jp/example/jlha/current.tar.gz
  curl -C - -u %[3]s:%[4]s -O %[1]s/a/jlha.example.jp.tar.gz
  tar xzf jlha.example.jp.tar.gz

`, r.HTTP, r.FTP, r.Account, r.Password)
}

// locked is a Writer that may be used concurrently.
type locked struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
