package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"sheaf/archive"
	"sheaf/ingest"
	"sheaf/internal/api"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/robotd/batch"
	"sheaf/serve/account"
	"sheaf/serve/client"
)

// drainFor is how long the robots wait, after their time, until all that they have sent is
// published.
const drainFor = 5 * time.Minute

// receiptsEvery is how often a robot asks what has become of a batch, at most.
const receiptsEvery = 10 * time.Second

// deliveries are the batches that robots have sent, and a reader who waits for them.
type deliveries struct {
	*play
	reader *client.Client
	at     api.Cursor // where the reader begins
	name   string     // of the reader's account
	dir    string     // of the robots' batches

	mu    sync.Mutex
	sent  map[string]time.Time // when the service had all of a batch, by ID
	seen  map[string]bool      // batches that the reader has seen
	depth []depth
}

// depth is what was in the service's buffers at a time.
type depth struct {
	at      time.Duration // since the beginning
	batches map[wire.State]int64
	oldest  time.Duration // for how long, at most, an unpublished batch has been in its state
}

// newDeliveries makes an account for the reader, who begins at the end of the feed.
func newDeliveries(ctx context.Context, p *play) (d *deliveries, err error) {
	made := account.NewAccount{Account: account.Account{Name: "played-" + strings.ToLower(rand.Text()[:10]), Domains: []string{"*"}}}
	if err := p.operator.Do(ctx, http.MethodPost, api.PathAdminAccounts, made, &made); err != nil {
		return nil, err
	}
	d = &deliveries{play: p, name: made.Name, sent: map[string]time.Time{}, seen: map[string]bool{}}
	d.reader = &client.Client{URL: p.operator.URL, User: made.Name, Password: made.Password, HTTP: &http.Client{Timeout: 2 * time.Minute}}
	defer func() {
		if err != nil {
			d.end(context.WithoutCancel(ctx))
		}
	}()
	if d.dir, err = os.MkdirTemp("", "played-robots-"); err != nil {
		return nil, err
	}
	for more := true; more; {
		page, err := d.reader.Changes(ctx, d.at, api.Selection{}, 1000, 0)
		if err != nil {
			return nil, err
		}
		d.at, more = page.Next, page.More
	}
	return d, nil
}

func (d *deliveries) end(ctx context.Context) {
	_ = os.RemoveAll(d.dir)
	_ = d.operator.Do(ctx, http.MethodDelete, api.PathAdminAccounts+"/"+d.name, nil, nil)
}

// addHosts gives the robots hosts, each with an address of its own. Robots must have joined.
func (d *deliveries) addHosts(ctx context.Context) (hosts []string, err error) {
	prefix := strings.ToLower(rand.Text()[:6])
	for n := range d.robots * d.hosts {
		hosts = append(hosts, fmt.Sprintf("h%d.%s.test", n, prefix))
	}
	const atOnce = 1000
	for from := 0; from < len(hosts) && err == nil; from += atOnce {
		add := manager.HostsRequest{Addresses: map[string][]string{}}
		for n, host := range hosts[from:min(from+atOnce, len(hosts))] {
			add.Hosts = append(add.Hosts, "http://"+host+"/")
			add.Addresses[host] = []string{fmt.Sprintf("198.%d.%d.%d", 18+(from+n)>>16, (from+n)>>8&255, (from+n)&255)}
		}
		err = d.timed("hosts", "operator", func() error { return d.operator.Do(ctx, http.MethodPost, api.PathAdminHosts, add, nil) })
	}
	return hosts, err
}

func (d *deliveries) removeHosts(ctx context.Context, hosts []string) {
	for _, host := range hosts {
		d.timed("remove host", "operator", func() error {
			return d.operator.Do(ctx, http.MethodDelete, api.PathAdminHosts+"/"+host, nil, nil)
		})
	}
}

// during gives the robots hosts and calls work, in which they send batches. Then it waits, but no
// longer than receiptsEvery, until the reader has seen all batches.
func (d *deliveries) during(ctx context.Context, work func()) {
	hosts, err := d.addHosts(ctx)
	defer d.removeHosts(context.WithoutCancel(ctx), hosts)
	if err != nil {
		return // it is among the figures
	}
	ctx, stop := context.WithCancel(ctx)
	var others sync.WaitGroup
	others.Go(func() { d.watch(ctx) })
	others.Go(func() { d.measure(ctx) })
	work()
	for over := time.Now().Add(receiptsEvery); d.unseen() > 0 && time.Now().Before(over) && ctx.Err() == nil; {
		time.Sleep(100 * time.Millisecond)
	}
	stop()
	others.Wait()
}

// watch reads the feed, and one byte of a file of each batch that it names, until ctx ends.
func (d *deliveries) watch(ctx context.Context) {
	for ctx.Err() == nil {
		page, err := d.reader.Changes(ctx, d.at, api.Selection{}, 1000, 10*time.Second)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			d.figures.note("changes", 0, err)
			time.Sleep(time.Second)
			continue
		}
		d.at = page.Next
		last := ""
		for _, e := range page.Events {
			if e.Op == api.Put && e.Batch != "" && e.Batch != last && len(e.Files) > 0 {
				last = e.Batch
				d.see(ctx, e)
			}
		}
	}
}

// see reads a byte of an event's batch, and notes how long it took until the batch could be read.
func (d *deliveries) see(ctx context.Context, e api.Event) {
	d.mu.Lock()
	seen := d.seen[e.Batch]
	d.seen[e.Batch] = true
	d.mu.Unlock()
	if seen {
		return
	}
	var now time.Time
	f, err := d.reader.Open(ctx, e.Path+e.Files[0].Name, 0, "")
	if err == nil {
		_, err = io.ReadFull(f.Body, make([]byte, 1))
		now = time.Now()
		f.Body.Close()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if at, ours := d.sent[e.Batch]; ours {
		d.figures.note("received to readable", now.Sub(at), err)
	}
}

// published notes how long it took until a batch was published, by its receipt.
func (d *deliveries) published(b batch.Spooled, receipt *wire.Receipt) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at, ours := d.sent[string(b.ID)]; ours {
		d.figures.note("received to published", max(0, receipt.At.Sub(at)), nil)
	}
	return nil
}

// unseen returns how many of the sent batches the reader has not seen. An event names no batch if
// several batches brought pages of one host.
func (d *deliveries) unseen() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.sent {
		if !d.seen[id] {
			n++
		}
	}
	return n
}

// measure notes every few seconds what is in the service's buffers, until ctx ends.
func (d *deliveries) measure(ctx context.Context) {
	tick := time.NewTicker(max(d.last/200, 100*time.Millisecond))
	defer tick.Stop()
	for began := time.Now(); ; {
		if now, err := client.Call(ctx, d.operator, ingest.ListBatches, ingest.BatchQuery{Limit: 1}); err == nil {
			of := depth{at: time.Since(began), batches: map[wire.State]int64{}}
			for _, b := range now.Buffers {
				of.batches[b.State] = b.Batches
				if b.State == wire.StateReceived || b.State == wire.StatePreSplit || b.State == wire.StatePostSplit {
					of.oldest = max(of.oldest, time.Duration(b.Oldest*float64(time.Second)))
				}
			}
			d.depth = append(d.depth, of)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// write writes how many batches waited, at most, in each tenth of the time.
func (d *deliveries) write(out io.Writer) {
	fmt.Fprintf(out, "%d batches were sent; %d came with others of the same hosts in one edition\n", len(d.sent), d.unseen())
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "until\treceived\tpre-split\tpost-split\toldest\t")
	for from, tenths := 0, 10; tenths > 0; tenths-- {
		to := from + (len(d.depth)-from)/tenths
		if to == from {
			continue
		}
		most := depth{batches: map[wire.State]int64{}}
		for _, of := range d.depth[from:to] {
			for state, n := range of.batches {
				most.batches[state] = max(most.batches[state], n)
			}
			most.at, most.oldest = of.at, max(most.oldest, of.oldest)
		}
		fmt.Fprintf(w, "%v\t%d\t%d\t%d\t%v\t\n", most.at.Round(time.Second), most.batches[wire.StateReceived],
			most.batches[wire.StatePreSplit], most.batches[wire.StatePostSplit], most.oldest.Round(100*time.Millisecond))
		from = to
	}
	w.Flush()
}

// noted is a target that notes when the service had all of a batch.
type noted struct {
	batch.Target
	to *deliveries
}

func (n noted) Send(ctx context.Context, b batch.Spooled) error {
	began := time.Now()
	err := n.Target.Send(ctx, b)
	if ctx.Err() != nil {
		return err
	}
	if _, ok := errors.AsType[*batch.LaterError](err); ok {
		n.to.figures.note("upload put off", time.Since(began), nil)
		return err
	}
	n.to.figures.note("upload", time.Since(began), err)
	if err == nil {
		n.to.mu.Lock()
		defer n.to.mu.Unlock()
		n.to.sent[string(b.ID)] = time.Now()
	}
	return err
}

// bring makes and sends batches of the robot's hosts until the time is over, and then waits until
// all are published.
func (r *robot) bring(ctx context.Context, hosts []string) {
	d := r.deliver
	if err := r.tryBring(ctx, d, hosts); err != nil {
		d.figures.note("batch", 0, fmt.Errorf("robot %s: %w", r.name, err))
	}
}

func (r *robot) tryBring(ctx context.Context, d *deliveries, hosts []string) (err error) {
	silent := slog.New(slog.DiscardHandler)
	store, err := batch.Open(filepath.Join(d.dir, r.name), r.generation.Load(), batch.Options{Robot: r.name, Version: "played", Key: r.key, Log: silent})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	to := &batch.HTTP{Base: strings.TrimSuffix(r.service, "/"), Robot: r.name, Secret: r.secret, Key: wire.OneKey(r.serverKey), Client: r.http}
	u := batch.NewUploader(batch.UploaderOptions{
		Spool: store, Targets: []batch.Target{noted{to, d}}, Receipts: to, Log: silent, Poll: min(receiptsEvery, r.batches), BackOff: time.Second,
		Published: d.published,
		Quarantined: func(b batch.Spooled, of *wire.Receipt) error {
			d.figures.note("batch", 0, fmt.Errorf("%s is quarantined: %s %s", b.ID, of.Reason, of.Detail))
			return nil
		},
	})
	sending, stop := context.WithTimeout(context.WithoutCancel(ctx), r.last+drainFor)
	defer stop()
	var sender sync.WaitGroup
	sender.Go(func() { err = errors.Join(err, u.Run(sending)) })
	over := time.After(r.last)
	for wait := time.Duration(mathrand.Int64N(int64(r.batches))); ; wait = r.batches {
		select {
		case <-ctx.Done():
		case <-over:
		case <-time.After(wait):
			if err := r.makeBatch(ctx, store, hosts); err != nil {
				return err
			}
			u.Wake()
			continue
		}
		break
	}
	for { // until all are published
		left, err := store.Pending()
		if err != nil || len(left) == 0 || sending.Err() != nil {
			stop()
			sender.Wait()
			return err
		}
		time.Sleep(time.Second)
	}
}

// makeBatch makes a batch with some new pages of each of the robot's hosts.
func (r *robot) makeBatch(ctx context.Context, store *batch.Store, hosts []string) error {
	return r.timed("batch", func() error {
		for _, host := range hosts {
			for n := range r.pages {
				page := &archive.Record{
					Kind: archive.Page, URL: fmt.Sprintf("http://%s/%d.html", host, n), Time: time.Now().UTC().Truncate(time.Second),
					HTTP: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"), Body: bytes.NewReader(text(16 << 10)),
				}
				_, noted, err := store.Append(host, page)
				if err != nil {
					return err
				}
				noted()
			}
		}
		_, err := store.Seal(context.WithoutCancel(ctx), r.generation.Load(), nil)
		return err
	})
}

// words are the words of made-up pages. The pages deflate to about a third.
var words = func() (words []string) {
	for range 2000 {
		words = append(words, strings.ToLower(rand.Text()[:3+mathrand.IntN(8)]))
	}
	return words
}()

// text returns about n bytes of random words.
func text(n int) []byte {
	var b bytes.Buffer
	for b.Len() < n {
		b.WriteString(words[mathrand.IntN(len(words))])
		b.WriteByte(' ')
	}
	return b.Bytes()
}
