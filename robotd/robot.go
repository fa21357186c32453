package robotd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/archive"
	"sheaf/internal/window"
	"sheaf/internal/wire"
	"sheaf/robotd/assignment"
	"sheaf/robotd/batch"
	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/coverage"
	"sheaf/robotd/datadir"
	"sheaf/robotd/diskguard"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
	"sheaf/robotd/hoststate"
	"sheaf/robotd/identity"
	"sheaf/robotd/polite"
	"sheaf/robotd/reports"
	"sheaf/robotd/schedule"
	"sheaf/robotd/status"
	"sheaf/robotd/tap"
	"sheaf/robotd/upload"
	"sheaf/robotd/verdict"
)

// Robot is a daemon with its data folder open. Its methods are not to be called
// at the same time.
type Robot struct {
	cfg    config.Config
	plan   schedule.Plan
	rounds rounds
	id     *identity.Identity
	log    *slog.Logger
	lock   *os.File
	list   *assignment.Current
	world  outside

	manager *client.Client
	fetcher *fetch.Fetcher
	gate    *polite.Gate
	rota    *rota
	robots  *hoststate.Rules
	shared  *polite.Library // of what is kept in robots

	restraints *hoststate.Restraints
	servers    *hoststate.Servers

	frontier *frontier.Frontier
	batches  *batch.Store
	uploader *upload.Uploader
	tap      *tap.Tap // nil: none
	ledger   *coverage.Ledger
	sketcher *verdict.Sketcher
	journal  *reports.Log
	found    *reports.Found
	started  time.Time
	look     chan struct{}               // tells that the manager wants a release looked for
	quiet    map[string]*window.Schedule // by host, when it is not to be visited
	budget   *polite.Budget
	spent    chan struct{} // tells that the budget is used up
	saved    polite.Usage  // of the budget, as its file has it
	pause    *pause
	watches  *watches
	room     *diskguard.Guard
	opens    sync.Mutex // held while the gate is opened or closed

	pages, bytes atomic.Int64                    // of the last crawl, once it has ended
	tally        tally                           // of the cycle, since the start
	covered      atomic.Pointer[status.Coverage] // by it; nil: there was none

	progress *progress            // of hosts, as the manager is told
	asking   sync.Mutex           // held while the manager is asked and obeyed; guards the next two
	here     bool                 // the manager has been told that the robot is here
	away     bool                 // the manager does not answer, and that has been said
	asks     chan []wire.ProbeAsk // distances to measure
	turned   chan struct{}        // tells that held has changed
	gained   chan struct{}        // tells that the list has got hosts between two cycles
	wanted   chan struct{}        // tells between two cycles that watched pages may be due, or a visit was ordered
	orders   *orderedVisits

	mu    sync.Mutex // guards all below
	askAt time.Time  // when the manager is asked for changes
	cycle cycle
	crawl *crawl    // nil between two cycles
	held  time.Time // since when there are to be no visits, by the manager's order; zero: there may be
}

// New opens the data folder and takes up what an earlier run left.
func New(cfg config.Config, log *slog.Logger) (*Robot, error) {
	return newRobot(cfg, log, outside{
		web: newClient(), rounds: usualRounds(),
	})
}

func newClient() *http.Client {
	return &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
}

// outside is what tests replace: the way to web servers and to the service, and the times between rounds.
type outside struct {
	dial   func(ctx context.Context, network, addr string) (net.Conn, error) // to web servers; nil: by TCP
	web    *http.Client                                                      // for the service
	rounds rounds
}

func newRobot(cfg config.Config, log *slog.Logger, world outside) (*Robot, error) {
	plan, err := cfg.Plan()
	if err != nil {
		return nil, err
	}
	id, err := identity.Load(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	cfg.Manager = id.Managers(cfg.Manager)
	r := &Robot{cfg: cfg, plan: plan, rounds: world.rounds, world: world, id: id, log: log.With("robot", id.Robot), started: time.Now(), look: make(chan struct{}, 1), sketcher: verdict.NewSketcher(),
		rota: &rota{}, progress: newProgress(), asks: make(chan []wire.ProbeAsk, 1), turned: make(chan struct{}, 1), gained: make(chan struct{}, 1), wanted: make(chan struct{}, 1)}
	if err := r.open(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Robot) path(elem ...string) string {
	return filepath.Join(append([]string{r.cfg.DataDir}, elem...)...)
}

func (r *Robot) open() (err error) {
	if r.lock, err = datadir.Lock(r.cfg.DataDir); err != nil {
		return err
	}
	if err := datadir.LoadJSON(r.path("cycle.json"), &r.cycle); err != nil {
		return err
	}
	if r.list, err = assignment.Open(r.path("list.json")); err != nil {
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
	if r.pause, err = openPause(r.path(pauseFile)); err != nil {
		return err
	}
	if r.orders, err = openOrdered(r.path("ordered.json")); err != nil {
		return err
	}
	if r.watches, err = openWatches(r.path("watches.json")); err != nil {
		return err
	}
	ordered, err := openPause(r.path(heldFile))
	if err != nil {
		return err
	}
	r.held = ordered.at
	if err := r.openGate(); err != nil {
		return err
	}
	r.fetcher = fetch.New(r.fetching(proxy, temp))
	r.manager = client.New(r.cfg.Manager, r.id.Robot, r.id.Secret, r.world.web)
	r.rota.offset = r.manager.Offset
	if r.journal, err = reports.OpenLog(r.path("log"), r.id.Robot); err != nil {
		return err
	}
	if r.found, err = reports.OpenFound(r.path("discovered")); err != nil {
		return err
	}
	if r.frontier, err = frontier.Open(r.path("frontier"), r.cycle.Number); err != nil {
		return err
	}
	if r.ledger, err = coverage.Open(r.path("coverage.tsv")); err != nil {
		return err
	}
	r.batches, err = batch.Open(r.cfg.DataDir, r.list.Generation(), batch.Options{
		Robot: r.id.Robot, Version: Version, Key: r.id.Key, Log: r.log, MaxOpen: min(openFiles()/2, maxOpen),
		Ledger: r.ledger, Clock: r.manager.Clock,
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
	r.uploader, err = r.newUploader()
	return err
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
	if err := datadir.LoadJSON(r.path(usageFile), &used); err != nil {
		return err
	}
	r.budget = &polite.Budget{Daily: r.cfg.Limits.Daily, Monthly: r.cfg.Limits.Monthly, Zone: r.plan.Window.Location()}
	r.budget.Restore(used)
	r.spent = make(chan struct{}, 1)
	if r.robots, err = hoststate.OpenRules(r.path("robots")); err != nil {
		return err
	}
	r.shared = polite.NewLibrary()
	if r.servers, err = hoststate.OpenServers(r.path("servers")); err != nil {
		return err
	}
	if r.restraints, err = hoststate.OpenRestraints(r.path("restraints")); err != nil {
		return err
	}
	r.gate = polite.NewGate(polite.GateOptions{
		Interval: r.cfg.Interval, Min: r.cfg.Adapt.Min, Max: r.cfg.Adapt.Max, Group: group, Recall: r.recall, Allow: r.rota.allow,
	})
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

// Join makes the data folder that of a robot of the service; see identity.Join.
func Join(ctx context.Context, manager, token, dir string) (string, error) {
	return identity.Join(ctx, manager, token, dir, Version)
}
