package robotd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"sheaf/archive"
	"sheaf/internal/window"
	"sheaf/internal/wire"
	"sheaf/robotd/batch"
	"sheaf/robotd/coverage"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
	"sheaf/robotd/memory"
	"sheaf/robotd/polite"
	"sheaf/robotd/room"
	"sheaf/robotd/schedule"
	"sheaf/robotd/tap"
	"sheaf/robotd/upload"
	"sheaf/robotd/verdict"
)

// Robot is a daemon with its data folder open. Its methods are not to be called
// at the same time.
type Robot struct {
	cfg  Config
	plan schedule.Plan
	id   *identity
	log  *slog.Logger
	lock *os.File

	manager *manager
	fetcher *fetch.Fetcher
	gate    *polite.Gate
	rota    *rota
	robots  *memory.Rules

	restraints *memory.Restraints
	servers    *memory.Servers

	frontier *frontier.Frontier
	batches  *batch.Store
	uploader *upload.Uploader
	tap      *tap.Tap // nil: none
	ledger   *coverage.Ledger
	sketcher *verdict.Sketcher
	journal  *collectionLog
	found    *discovered
	started  time.Time
	look     chan struct{}               // tells that the manager wants a release looked for
	quiet    map[string]*window.Schedule // by host, when it is not to be visited
	budget   *polite.Budget
	spent    chan struct{} // tells that the budget is used up
	saved    polite.Usage  // of the budget, as its file has it
	pause    *pause
	room     *room.Guard
	opens    sync.Mutex // held while the gate is opened or closed

	pages, bytes atomic.Int64 // of the last crawl, once it has ended

	progress *progress            // of hosts, as the manager is told
	asking   sync.Mutex           // held while the manager is asked and obeyed
	asks     chan []wire.ProbeAsk // distances to measure
	turned   chan struct{}        // tells that held has changed
	gained   chan struct{}        // tells that the list has got hosts between two cycles

	mu    sync.Mutex // guards all below
	askAt time.Time  // when the manager is asked for changes
	list  assignment
	cycle cycle
	crawl *crawl // nil between two cycles
	held  bool   // no visits, by the manager's order
}

// cycle is one round over all assigned hosts. It is over when Ended is set.
type cycle struct {
	Number int64     `json:"number"`
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended,omitzero"`
}

// New opens the data folder and takes up what an earlier run left.
func New(cfg Config, log *slog.Logger) (*Robot, error) {
	plan, err := cfg.plan()
	if err != nil {
		return nil, err
	}
	id, err := loadIdentity(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	if cfg.Manager == "" {
		cfg.Manager = id.Manager
	}
	r := &Robot{cfg: cfg, plan: plan, id: id, log: log.With("robot", id.Robot), started: time.Now(), look: make(chan struct{}, 1), sketcher: verdict.NewSketcher(),
		rota: &rota{}, progress: newProgress(), asks: make(chan []wire.ProbeAsk, 1), turned: make(chan struct{}, 1), gained: make(chan struct{}, 1)}
	if err := r.open(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Robot) path(elem ...string) string {
	return filepath.Join(append([]string{r.cfg.DataDir}, elem...)...)
}

func (r *Robot) open() (err error) {
	if r.lock, err = lockDir(r.cfg.DataDir); err != nil {
		return err
	}
	if err := errors.Join(loadJSON(r.path("list.json"), &r.list), loadJSON(r.path("cycle.json"), &r.cycle)); err != nil {
		return err
	}
	var proxy *url.URL
	if r.cfg.Network.Proxy != "" {
		if proxy, err = url.Parse(r.cfg.Network.Proxy); err != nil {
			return err
		}
	}
	temp := r.path("tmp")
	if err := errors.Join(os.RemoveAll(temp), os.MkdirAll(temp, 0o755), os.MkdirAll(r.path("receipts"), 0o755)); err != nil {
		return err
	}
	if r.pause, err = openPause(r.cfg.DataDir); err != nil {
		return err
	}
	if err := r.openGate(); err != nil {
		return err
	}
	r.fetcher = fetch.New(r.fetching(proxy, temp))
	client := &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	r.manager = &manager{base: r.cfg.Manager, robot: r.id.Robot, secret: r.id.Secret, client: client}
	r.rota.offset = r.manager.clock.certain
	if r.journal, err = openLog(r.path("log"), r.id.Robot); err != nil {
		return err
	}
	if r.found, err = openDiscovered(r.path("discovered")); err != nil {
		return err
	}
	if r.frontier, err = frontier.Open(r.path("frontier"), r.cycle.Number); err != nil {
		return err
	}
	if r.ledger, err = coverage.Open(r.path("coverage.tsv")); err != nil {
		return err
	}
	r.batches, err = batch.Open(r.cfg.DataDir, r.list.Generation, batch.Options{
		Robot: r.id.Robot, Version: Version, Key: r.id.key, Log: r.log, MaxOpen: openFiles() / 2,
		Ledger: r.ledger, Clock: r.manager.clock.measured,
		Writer: archive.WriterOptions{Level: r.cfg.Batch.Level, MaxBody: r.cfg.Page.MaxBytes, TempDir: temp},
	})
	if err != nil {
		return err
	}
	if err := r.openTap(); err != nil {
		return err
	}
	if err := r.openRoom(); err != nil {
		return err
	}
	r.setGate()
	r.uploader, err = r.newUploader(client)
	return err
}

// fetching is how pages are fetched.
func (r *Robot) fetching(proxy *url.URL, temp string) fetch.Options {
	return fetch.Options{
		Resolver: resolver(r.cfg.Network.Resolver), Limit: bandwidth(r.cfg.Limits.Bandwidth),
		UserAgent: r.cfg.userAgent(), Overrides: r.cfg.Network.Hosts, Proxy: proxy,
		AllowPrivate: r.cfg.Network.AllowPrivate, MaxBody: r.cfg.Page.MaxBytes,
		Timeout: r.cfg.Page.Timeout, TempDir: temp,
	}
}

// openGate makes the gate and what decides when it is open.
func (r *Robot) openGate() error {
	group, err := polite.Ranges(r.cfg.Network.Ranges)
	if err != nil {
		return err
	}
	r.quiet = make(map[string]*window.Schedule, len(r.cfg.NotBetween))
	for host, text := range r.cfg.NotBetween {
		if r.quiet[host], err = window.Parse(text); err != nil {
			return err
		}
	}
	var used polite.Usage
	if err := loadJSON(r.path(usageFile), &used); err != nil {
		return err
	}
	r.budget = &polite.Budget{Daily: r.cfg.Limits.Daily, Monthly: r.cfg.Limits.Monthly, Zone: r.plan.Window.Location()}
	r.budget.Restore(used)
	r.spent = make(chan struct{}, 1)
	if r.robots, err = memory.OpenRules(r.path("robots")); err != nil {
		return err
	}
	if r.servers, err = memory.OpenServers(r.path("servers")); err != nil {
		return err
	}
	if r.restraints, err = memory.OpenRestraints(r.path("restraints")); err != nil {
		return err
	}
	r.gate = polite.NewGate(polite.GateOptions{
		Interval: r.cfg.Interval, Min: r.cfg.Adapt.Min, Max: r.cfg.Adapt.Max, Group: group, Recall: r.recall, Allow: r.rota.allow,
	})
	return nil
}

// openFiles is how many files the process may have open. Half of them may be
// segments, the others are for connections: a segment that must be closed for want of a
// descriptor costs a walk over all of it when its host's next page comes.
func openFiles() int {
	const most, least = 100_000, 256
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return least
	}
	return int(max(min(limit.Cur, most), least))
}

// resolver asks the name server at addr; empty: the system's.
func resolver(addr string) *net.Resolver {
	if addr == "" {
		return nil
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
}

// bandwidth limits to bytes per second; a second's worth may come at once.
func bandwidth(bytes int64) *rate.Limiter {
	if bytes == 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(bytes), int(min(bytes, 1<<20)))
}

func (r *Robot) newUploader(client *http.Client) (*upload.Uploader, error) {
	ways, err := r.targets(client)
	if err != nil {
		return nil, err
	}
	var targets []upload.Target
	var desks upload.Desks
	for _, w := range ways {
		targets, desks = append(targets, w), append(desks, w)
	}
	return upload.New(upload.Options{
		Spool: r.batches, Targets: targets, Desk: desks, Log: r.log,
		Poll: r.cfg.Upload.Poll, BackOff: r.cfg.Upload.BackOff,
		Published: r.published, Quarantined: r.quarantined,
	}), nil
}

// published keeps the receipt of a batch. Where the disk is full, the batch must go all the
// same, for want of whose room the receipt cannot be kept.
func (r *Robot) published(b batch.Spooled, receipt *wire.Receipt) error {
	err := saveJSON(r.path("receipts", string(b.ID)+".json"), receipt)
	if room.IsFull(err) {
		r.log.Warn("receipt not kept", "batch", b.ID, "edition", receipt.Edition, "version", receipt.Version, "error", err)
		return nil
	}
	return err
}

// quarantined forgets what the batch's pages were like: their full copies were
// never published, so that no revisit may refer to them.
func (r *Robot) quarantined(b batch.Spooled, _ *wire.Receipt) error {
	for _, host := range b.Hosts {
		if err := r.frontier.ForgetVisits(host); err != nil {
			return err
		}
	}
	return nil
}

// Close lets go of the data folder. Open segments stay open on disk; the next
// New goes on with them.
func (r *Robot) Close() error {
	var errs []error
	if r.budget != nil {
		errs = append(errs, r.saveUsage())
	}
	if r.batches != nil {
		errs = append(errs, r.batches.Close())
	}
	if r.tap != nil {
		errs = append(errs, r.tap.Close())
	}
	if r.frontier != nil {
		errs = append(errs, r.frontier.Close())
	}
	if r.restraints != nil {
		errs = append(errs, r.restraints.Close())
	}
	if r.ledger != nil {
		errs = append(errs, r.ledger.Close())
	}
	if r.journal != nil {
		errs = append(errs, r.journal.Close())
	}
	if r.found != nil {
		errs = append(errs, r.found.Close())
	}
	if r.lock != nil {
		errs = append(errs, r.lock.Close())
	}
	return errors.Join(errs...)
}

// Run runs the daemon until ctx ends, which is no error, or, with Config.Once,
// until one cycle is published.
func Run(ctx context.Context, cfg Config, log *slog.Logger) (err error) {
	r, err := New(cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	stop, err := r.serveControl()
	if err != nil {
		return err
	}
	defer stop()
	defer func() { err = errors.Join(err, r.saveStatus()) }()
	if err := r.manager.subscribe(ctx); err != nil {
		r.log.Warn("manager not told that the robot is here", "error", err)
	}
	if err := r.beat(ctx); err != nil { // it may say that the robot is paused
		return err
	}
	if cfg.Once {
		if err := r.Cycle(ctx); err != nil {
			return err
		}
		return r.Drain(ctx)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.uploader.Run(ctx) })
	g.Go(func() error { return r.cycles(ctx) })
	g.Go(func() error { return r.keepProgram(ctx) })
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	_, err = r.seal(context.WithoutCancel(ctx))
	return err
}

// cycles runs one cycle after another.
func (r *Robot) cycles(ctx context.Context) error {
	for {
		if err := r.waitForCycle(ctx); err != nil {
			return err
		}
		switch err := r.Cycle(ctx); {
		case errors.Is(err, errNoList):
			r.log.Warn("nothing to do yet", "error", err)
			if err := sleep(ctx, time.Minute); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
}

// waitForCycle waits until the next cycle is due. A cycle that was interrupted is due at once.
func (r *Robot) waitForCycle(ctx context.Context) error {
	last := r.cycle
	if last.Number == 0 || last.Ended.IsZero() {
		return nil
	}
	next, ok := r.plan.NextCycle(last.Began, last.Ended)
	if !ok {
		next = time.Now().AddDate(1, 0, 0)
		r.log.Warn("the window never opens: no cycle will begin", "window", r.plan.Window)
	}
	r.log.Info("waiting for the next cycle", "at", next)
	return r.withChores(ctx, func(ctx context.Context) error { return r.rest(ctx, next) })
}

// rest waits for the next cycle. Hosts that come while the window is open are taken into the
// last one, which goes on then: they are of tonight, from a robot that cannot finish them.
func (r *Robot) rest(ctx context.Context, next time.Time) error {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case <-r.gained:
			if !r.mayVisit(time.Now()) {
				continue // they are for the next cycle
			}
			r.mu.Lock()
			r.cycle.Ended = time.Time{}
			reopened := r.cycle
			r.mu.Unlock()
			return saveJSON(r.path("cycle.json"), reopened)
		}
	}
}

// moreWork tells the manager that every host is exhausted, and reports whether it gave others.
func (r *Robot) moreWork(ctx context.Context) (bool, error) {
	r.mu.Lock()
	before := r.list
	r.mu.Unlock()
	if err := r.beat(ctx); err != nil {
		return false, err
	}
	r.collects()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list.gained(&before), nil
}

// collects notes that the hosts of the list are all being collected, those that came last too.
func (r *Robot) collects() {
	select {
	case <-r.gained:
	default:
	}
}

// Cycle runs one crawl cycle: it takes up the one that was interrupted or begins
// the next, visits every assigned host until nothing is left, makes the batch and
// hands in the log. The batch is then in the spool; Drain uploads it.
func (r *Robot) Cycle(ctx context.Context) error {
	if err := r.beginCycle(); err != nil {
		return err
	}
	if err := r.refresh(ctx); err != nil {
		r.log.Warn("manager away; going on with the last list", "hosts", len(r.list.URLs), "error", err)
	}
	r.collects()
	if r.list.Generation == 0 && len(r.list.URLs) == 0 {
		return errNoList
	}
	for more := true; more; {
		if err := r.crawlHosts(ctx); err != nil {
			return err
		}
		var err error
		if more, err = r.moreWork(ctx); err != nil {
			return err
		}
	}
	if _, err := r.seal(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	r.cycle.Ended = time.Now()
	r.mu.Unlock()
	if err := saveJSON(r.path("cycle.json"), r.cycle); err != nil {
		return err
	}
	r.log.Info("cycle ended", "cycle", r.cycle.Number, "took", r.cycle.Ended.Sub(r.cycle.Began).Round(time.Second))
	r.handIn(ctx)
	return r.saveStatus()
}

var errNoList = errors.New("the manager has not given a list of hosts yet")

func (r *Robot) beginCycle() error {
	if r.cycle.Number > 0 && r.cycle.Ended.IsZero() {
		r.log.Info("cycle taken up", "cycle", r.cycle.Number, "began", r.cycle.Began)
		return nil
	}
	next := cycle{Number: r.cycle.Number + 1, Began: time.Now()}
	if err := r.frontier.Advance(next.Number); err != nil {
		return err
	}
	r.mu.Lock()
	r.cycle = next
	r.mu.Unlock()
	r.log.Info("cycle begins", "cycle", next.Number)
	return saveJSON(r.path("cycle.json"), next)
}

// Drain uploads until every batch in the spool is published.
func (r *Robot) Drain(ctx context.Context) error { return r.uploader.Drain(ctx) }

// seal makes a batch of what is there.
func (r *Robot) seal(ctx context.Context) (wire.BatchID, error) {
	r.mu.Lock()
	generation, c := r.list.Generation, r.crawl
	r.mu.Unlock()
	if c != nil {
		if err := c.accountLeft(); err != nil {
			return "", err
		}
	}
	id, err := r.batches.Seal(ctx, generation)
	if err != nil {
		return "", fmt.Errorf("sealing: %w", err)
	}
	if id != "" {
		r.uploader.Wake()
	}
	return id, nil
}

// Leave takes a stopped robot off the manager's list (P5), so that its hosts are
// others' at once, and uploads what it still has. Done again, it goes on where it was.
func Leave(ctx context.Context, cfg Config, log *slog.Logger) (err error) {
	r, err := New(cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if _, err := r.seal(ctx); err != nil { // under the list that it was collected by
		return err
	}
	if err := r.manager.unsubscribe(ctx); err != nil {
		return err
	}
	r.handIn(ctx)
	return r.Drain(ctx)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
