// Command robots plays many robots at once: they join a service, fetch lists, send heartbeats,
// confirm new lists and leave. It visits no site. It shows what the protocol costs the service.
//
//	go run ./test/robots --service http://127.0.0.1:8080 --data sheaf-data --robots 1000 --for 2m
//
// It can also play consumers, who download a file again and again, each over a connection of its
// own, while 20 others log in each second. If the service has access.rate, all accounts must get
// about the same share of it, though some have three times as many consumers as the others.
//
//	go run ./test/robots … --consumers 1000 --accounts 50 --file /pub/jp/ac/waseda/www/all.tar.gz
//
// With --hosts each robot also makes batches of made-up pages of hosts of its own, as robotd does,
// and sends them. A reader follows the feed and reads a file of each batch. So it shows how long it
// takes until a robot's batch can be read, and how many batches wait in the buffers meanwhile. Use
// a service that was made for that, with publish.window: always, since the published pages stay.
//
//	go run ./test/robots … --robots 1000 --hosts 5 --batches 1m --pages 4 --for 10m
//
// The service must be on this machine. The command ends by itself, and then removes its robots and
// accounts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"sheaf/cmd/sheaf/service"
	"sheaf/serve/client"
)

// Limits of what is played.
const (
	mostRobots    = 5000
	mostConsumers = 5000
	mostHosts     = 100_000
	mostPages     = 1000
	longest       = time.Hour
)

// options say what is played.
type options struct {
	service string        // URL
	token   string        // the operators'
	robots  int           // at once
	last    time.Duration // then all leave
	every   time.Duration // between two heartbeats of a robot

	hosts   int           // of each robot, of which it sends batches; 0: none
	batches time.Duration // between two batches of a robot
	pages   int           // of each host in a batch

	consumers int    // at once
	accounts  int    // to which the consumers belong
	file      string // path of the file that they download
}

func (o options) check() error {
	to, err := url.Parse(o.service)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(to.Hostname()); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("--service %q: want the URL of a service on this machine, such as http://127.0.0.1:8080", o.service)
	}
	if o.robots < 0 || o.robots > mostRobots {
		return fmt.Errorf("--robots %d: want 0 to %d", o.robots, mostRobots)
	}
	if o.consumers < 0 || o.consumers > mostConsumers {
		return fmt.Errorf("--consumers %d: want 0 to %d", o.consumers, mostConsumers)
	}
	if o.consumers > 0 && (o.accounts < 1 || o.accounts > o.consumers || !strings.HasPrefix(o.file, "/")) {
		return fmt.Errorf("--consumers wants --accounts, from 1 to as many, and --file, the path of a file such as /pub/jp/…/all.tar.gz")
	}
	if o.hosts < 0 || o.robots*o.hosts > mostHosts || o.hosts > 0 && (o.batches <= 0 || o.pages < 1 || o.pages > mostPages) {
		return fmt.Errorf("--hosts %d, --batches %v, --pages %d: want at most %d hosts in all, more than nothing between batches, and 1 to %d pages",
			o.hosts, o.batches, o.pages, mostHosts, mostPages)
	}
	if o.last <= 0 || o.last > longest || o.every <= 0 {
		return fmt.Errorf("--for %v, --every %v: want more than nothing, and --for at most %v", o.last, o.every, longest)
	}
	return nil
}

func main() {
	var o options
	var data string
	flag.StringVar(&o.service, "service", "http://127.0.0.1:8080", "URL of the service, on this machine")
	flag.StringVar(&data, "data", "sheaf-data", "data directory of the service, which has the operators' token")
	flag.IntVar(&o.robots, "robots", 100, "robots at once")
	flag.DurationVar(&o.last, "for", time.Minute, "how long they work")
	flag.DurationVar(&o.every, "every", 10*time.Second, "time between two heartbeats of a robot")
	flag.IntVar(&o.hosts, "hosts", 0, "hosts of each robot, of which it sends batches")
	flag.DurationVar(&o.batches, "batches", time.Minute, "time between two batches of a robot")
	flag.IntVar(&o.pages, "pages", 4, "new pages of each host in a batch, of 16 KiB each")
	flag.IntVar(&o.consumers, "consumers", 0, "consumers at once")
	flag.IntVar(&o.accounts, "accounts", 10, "accounts that they belong to")
	flag.StringVar(&o.file, "file", "", "path of what they download")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	token, err := service.ReadToken(data)
	if err == nil {
		o.token = token
		err = run(ctx, o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run plays the robots and consumers, and writes what their requests took. It fails if any request
// failed, or if the accounts' shares differ by more than shareBound.
func run(ctx context.Context, o options, out io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	operator, err := client.Operator(o.service, o.token)
	if err != nil {
		return err
	}
	p := &play{options: o, operator: operator, figures: newFigures()}
	if o.hosts > 0 {
		if p.deliver, err = newDeliveries(ctx, p); err != nil {
			return err
		}
		defer p.deliver.end(context.WithoutCancel(ctx))
	}
	began := time.Now()
	var work sync.WaitGroup
	var unfair error
	if o.consumers > 0 {
		work.Go(func() { unfair = p.consume(ctx, out) })
	}
	work.Go(func() { p.all(ctx) })
	work.Wait()
	if p.deliver != nil {
		p.deliver.write(out)
	}
	p.figures.write(out, time.Since(began))
	if n := p.figures.failures(); n > 0 {
		return errors.Join(fmt.Errorf("%d requests failed", n), p.figures.example, unfair)
	}
	return unfair
}

// figures has the times that requests took, by kind. Many goroutines may use note at once.
type figures struct {
	mu      sync.Mutex
	took    map[string][]time.Duration
	failed  map[string]int
	example error // the first failure; nil: there was none
}

func newFigures() *figures {
	return &figures{took: map[string][]time.Duration{}, failed: map[string]int{}}
}

func (f *figures) note(kind string, took time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.took[kind] = append(f.took[kind], took)
	if err != nil {
		f.failed[kind]++
		if f.example == nil {
			f.example = err
		}
	}
}

func (f *figures) failures() (n int) {
	for _, k := range f.failed {
		n += k
	}
	return n
}

// write writes a table of rates and latencies.
func (f *figures) write(out io.Writer, lasted time.Duration) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "request\tnumber\ta second\tp50\tp99\tmost\tfailed\t")
	for _, kind := range slices.Sorted(maps.Keys(f.took)) {
		took := f.took[kind]
		slices.Sort(took)
		part := func(n int) time.Duration { return took[(len(took)-1)*n/100].Round(100 * time.Microsecond) }
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%v\t%v\t%v\t%d\t\n", kind, len(took), float64(len(took))/lasted.Seconds(), part(50), part(99), part(100), f.failed[kind])
	}
	w.Flush()
}
