package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/cmd/sheaf/demo/sites"
	"sheaf/cmd/sheaf/service"
	"sheaf/ingest"
	"sheaf/internal/api"
	"sheaf/internal/loop"
	"sheaf/internal/operators"
	"sheaf/internal/route"
	"sheaf/internal/transfers"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/robotd"
	"sheaf/robotd/config"
	"sheaf/serve/account"
	"sheaf/serve/client"
)

// day is a running demo: its robots, and what an operator needs.
type day struct {
	web     *web
	service *service.Service
	dir     string
	log     *slog.Logger
	to      Teller

	operator *client.Client
	account  account.NewAccount    // of a consumer
	keeper   operators.NewOperator // an operator with a role
	robots   []*robotd.Robot
}

// prepare does an operator's work: it admits robots and lets them join, adds hosts, and makes an
// account for a consumer and a named operator.
func (d *day) prepare(ctx context.Context) error {
	var err error
	if d.operator, err = client.Operator(d.service.Addresses().HTTP, d.service.OperatorToken()); err != nil {
		return err
	}
	for _, name := range robots {
		if err := d.join(ctx, name); err != nil {
			return fmt.Errorf("robot %s: %w", name, err)
		}
	}
	if err := d.operator.Do(ctx, http.MethodPost, api.PathAdminRobots, manager.AdmitRequest{Name: notJoined}, nil); err != nil {
		return err
	}
	addresses := map[string][]string{}
	for host, at := range d.web.hosts() {
		ip, _, err := net.SplitHostPort(at)
		if err != nil {
			return err
		}
		addresses[host] = []string{ip}
	}
	if err := d.operator.Do(ctx, http.MethodPost, api.PathAdminHosts, manager.HostsRequest{Hosts: d.web.Seeds(), Addresses: addresses}, nil); err != nil {
		return err
	}
	made := account.NewAccount{Account: account.Account{Name: consumerName, Domains: []string{"*"}}}
	if err := d.operator.Do(ctx, http.MethodPost, api.PathAdminAccounts, made, &made); err != nil {
		return err
	}
	d.account = made
	keeper := operators.NewOperator{Operator: operators.Operator{Name: operatorName, Role: operators.Admin}}
	if err := d.operator.Do(ctx, http.MethodPost, api.PathAdminOperators, keeper, &keeper); err != nil {
		return err
	}
	d.keeper = keeper
	at := d.service.Addresses()
	d.to.Tell(Event{Kind: "ready", HTTP: at.HTTP, FTP: at.Download, Account: d.account.Name, Password: d.account.Password,
		Text: fmt.Sprintf("%d sites on loopback, %d robots, service at %s", len(d.web.Hosts()), len(d.robots), at.HTTP)})
	return nil
}

func (d *day) join(ctx context.Context, name string) error {
	var admitted manager.AdmitResponse
	if err := d.operator.Do(ctx, http.MethodPost, api.PathAdminRobots, manager.AdmitRequest{Name: name}, &admitted); err != nil {
		return err
	}
	cfg := robotd.DefaultConfig()
	cfg.Once = true // a day takes seconds here, so no robot waits for a host's quick hour
	cfg.DataDir = d.robotDir(name)
	cfg.Contact = d.service.Addresses().HTTP
	cfg.Interval = 5 * time.Millisecond // the sites are our own; 20 seconds by default
	cfg.Window = "always"
	cfg.Disk.Free = 32 << 20 // the demo stores a few MiB; 512 MiB by default
	cfg.Network.Hosts = d.web.hosts()
	cfg.Network.AllowPrivate = true
	cfg.Upload.Poll = 100 * time.Millisecond
	if name == robots[1] {
		cfg.Upload.Targets = []string{config.FTP, config.HTTP}
	}
	if _, err := robotd.Join(ctx, d.service.Addresses().HTTP, admitted.Token, cfg.DataDir); err != nil {
		return err
	}
	r, err := robotd.New(cfg, d.log)
	if err != nil {
		return err
	}
	d.robots = append(d.robots, r)
	return r.Subscribe(ctx)
}

// robotDir is a robot's data directory.
func (d *day) robotDir(name string) string { return filepath.Join(d.dir, "robot-"+name) }

func (d *day) close() error {
	var errs []error
	for _, r := range d.robots {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// collect lets every robot visit its hosts once, and publishes what they upload.
func (d *day) collect(ctx context.Context, n int) error {
	began := time.Now()
	d.to.Tell(Event{Kind: "collecting", Day: n, Text: fmt.Sprintf("day %d: the robots collect", n)})
	waiting, arrived := context.WithCancel(ctx)
	defer arrived()
	go d.trouble(waiting, n)
	g, crawling := errgroup.WithContext(ctx)
	for _, r := range d.robots {
		g.Go(func() error { return r.Cycle(crawling) })
	}
	ticking, done := context.WithCancel(ctx)
	go d.progress(ticking, n)
	err := g.Wait()
	done()
	if err != nil {
		return err
	}
	d.to.Tell(Event{Kind: "collected", Day: n, Took: time.Since(began),
		Text: fmt.Sprintf("day %d: collected in %.1f s; the batches travel", n, time.Since(began).Seconds())})

	g, draining := errgroup.WithContext(ctx)
	for _, r := range d.robots {
		g.Go(func() error { return r.Drain(draining) })
	}
	g.Go(func() error { return d.publish(draining, n) })
	return g.Wait()
}

// publish waits until every robot's batch of day n is split, and publishes.
func (d *day) publish(ctx context.Context, n int) error {
	for {
		list, err := client.Call(ctx, d.operator, ingest.ListBatches, ingest.BatchQuery{})
		if err != nil {
			return err
		}
		there := 0
		for _, b := range list.Batches {
			switch b.State {
			case wire.StateQuarantined:
				return fmt.Errorf("batch %s is quarantined: %s: %s", b.ID, b.Reason, b.Detail)
			case wire.StatePostSplit, wire.StatePublished:
				there++
			}
		}
		if there >= n*len(d.robots) {
			break
		}
		if !loop.Pause(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
	published, err := client.Call(ctx, d.operator, ingest.Publish, route.None{})
	if err != nil {
		return err
	}
	d.to.Tell(Event{Kind: "published", Day: n, Edition: published.Edition,
		Text: fmt.Sprintf("day %d: edition %s is public, out of %d batches", n, published.Edition, published.Batches)})
	return nil
}

// progress reports the robots' number of pages each second in which it has grown, until ctx ends.
func (d *day) progress(ctx context.Context, n int) {
	for last := int64(0); ; {
		if !loop.Pause(ctx, time.Second) {
			return
		}
		if pages := d.pages(); pages > last { // a robot begins at 0 again after its cycle
			d.to.Tell(Event{Kind: "progress", Day: n, Pages: int(pages), Text: fmt.Sprintf("day %d: %d answers", n, pages)})
			last = pages
		}
	}
}

func (d *day) pages() (pages int64) {
	for _, r := range d.robots {
		if status, err := r.Status(); err == nil {
			pages += status.Pages.Total
		}
	}
	return pages
}

// report reports the transfer rates, what is published, and how to fetch it.
func (d *day) report(ctx context.Context) error {
	var moved transfers.Document
	if err := d.operator.Do(ctx, http.MethodGet, api.PathTransfers, nil, &moved); err != nil {
		return err
	}
	reader := *d.operator
	reader.Token, reader.User, reader.Password = "", d.account.Name, d.account.Password
	var list api.EditionList
	if err := reader.Do(ctx, http.MethodGet, api.PathEditions, nil, &list); err != nil {
		return err
	}
	at := d.service.Addresses()
	d.to.Report(Report{
		HTTP: at.HTTP, FTP: at.Download, Account: d.account.Name, Password: d.account.Password,
		Operator: d.keeper.Name, OperatorPassword: d.keeper.Password, Transfers: moved.Totals, Editions: list.Editions, Data: d.dir,
	})
	return nil
}

//go:embed sites.zip.zst
var packed []byte

// web serves the bundled sites on loopback. Every host has an address of its own, because a robot
// visits one host per address at a time and so can visit several at once. If the system has only
// 127.0.0.1, the hosts share it.
type web struct {
	*sites.Web
	handler *sites.Handler
	at      map[string]string // host name → address:port
	servers []*http.Server
}

func startWeb() (*web, error) {
	z, err := sites.Unpack(packed)
	if err != nil {
		return nil, fmt.Errorf("bundled sites: %w", err)
	}
	s, err := sites.Open(z)
	if err != nil {
		return nil, err
	}
	w := &web{Web: s, handler: sites.NewHandler(s), at: map[string]string{}}
	for i, host := range s.Hosts() {
		l, err := net.Listen("tcp", fmt.Sprintf("127.77.0.%d:0", i+1))
		if err != nil {
			l, err = net.Listen("tcp", "127.0.0.1:0")
		}
		if err != nil {
			w.stop()
			return nil, fmt.Errorf("bundled site %s: %w", host, err)
		}
		server := &http.Server{Handler: w.handler}
		w.servers = append(w.servers, server)
		w.at[host] = l.Addr().String()
		go server.Serve(l)
	}
	return w, nil
}

func (w *web) stop() error {
	var errs []error
	for _, s := range w.servers {
		errs = append(errs, s.Shutdown(context.Background()))
	}
	return errors.Join(errs...)
}
