package robotd

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"sheaf/archive"
	"sheaf/internal/botauth"
	"sheaf/internal/page"
	"sheaf/robotd/batch"
	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/control"
	"sheaf/robotd/crawl"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
	"sheaf/robotd/polite"
	"sheaf/robotd/revisit"
)

// Robot is a daemon with its data folder open. Its methods must not be called concurrently, except
// Status.
type Robot struct {
	cfg     config.Config
	plan    config.Plan
	world   outside
	id      *client.Identity
	started time.Time
	log     *slog.Logger
	closers []io.Closer // what is open, in the order of opening

	client   *client.Client
	signer   *botauth.Signer // nil: requests are not signed
	wrong    sync.Once       // tells of a wrong clock
	list     *client.Assignment
	state    *State
	records  crawl.Records
	tap      *control.Tap // nil: there is none
	manners  crawl.Manners
	crawler  *crawl.Crawler
	fetcher  *fetch.Fetcher
	servers  *revisit.Servers
	orders   *revisit.Orders
	session  *session
	uploader *batch.Uploader
	program  *program
	keys     *serviceKeys
	hands    *fetch.Head // nil: there are none
}

// outside holds what tests replace: the connections to other machines, and the times of rounds.
type outside struct {
	dial   func(ctx context.Context, network, addr string) (net.Conn, error) // to web servers; nil: by TCP
	web    *http.Client                                                      // for the manager
	rounds Rounds
}

// New opens the data folder and takes up what an earlier process left.
func New(cfg config.Config, log *slog.Logger) (*Robot, error) {
	return newRobot(cfg, log, outside{web: newClient(), rounds: UsualRounds()})
}

func newClient() *http.Client {
	return &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
}

func newRobot(cfg config.Config, log *slog.Logger, world outside) (*Robot, error) {
	plan, err := cfg.Plan()
	if err != nil {
		return nil, err
	}
	id, err := client.LoadIdentity(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	cfg.Manager = id.Managers(cfg.Manager)
	r := &Robot{cfg: cfg, plan: plan, world: world, id: id, log: log.With("robot", id.Robot), started: time.Now()}
	if err := r.open(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Robot) path(elem ...string) string {
	return filepath.Join(append([]string{r.cfg.DataDir}, elem...)...)
}

// open opens the folder and puts the parts together.
func (r *Robot) open() error {
	lock, err := config.Lock(r.cfg.DataDir)
	if err != nil {
		return err
	}
	r.closers = append(r.closers, lock)
	temp := r.path("tmp")
	if err := errors.Join(os.RemoveAll(temp), os.MkdirAll(temp, 0o755), os.MkdirAll(r.path("receipts"), 0o755)); err != nil {
		return err
	}
	if r.list, err = client.OpenAssignment(r.path("list.json")); err != nil {
		return err
	}
	r.manners.Moves = polite.NewMoves()
	if r.manners.Lease, err = polite.OpenLease(r.path("lease.json"), r.list.List().Leased); err != nil {
		return err
	}
	if r.state, err = OpenState(r.path("cycle.json")); err != nil {
		return err
	}
	r.client = client.New(r.cfg.Manager, r.id.Robot, r.id.Secret, r.world.web)
	r.keys = &serviceKeys{dir: r.cfg.DataDir, id: r.id, client: r.client, log: r.log}
	if err := fetch.AwaitHands(handsDir(&r.cfg), r.log); err != nil { // before any interval is taken to begin
		return err
	}
	if err := r.openRecords(temp); err != nil {
		return err
	}
	if err := r.openManners(); err != nil {
		return err
	}
	sign, err := r.openSigner()
	if err != nil {
		return err
	}
	if r.fetcher, err = newFetcher(&r.cfg, temp, r.world.dial, sign); err != nil {
		return err
	}
	source, err := r.openHands()
	if err != nil {
		return err
	}
	if err := r.openCrawls(source); err != nil {
		return err
	}
	return r.openUploader()
}

// maxOpen is how many segments are kept open. An open segment takes half a kilobyte; opening a
// segment again is cheap.
const maxOpen = 512

// openRecords opens what a crawl reads and writes, except the watched pages.
func (r *Robot) openRecords(temp string) (err error) {
	rec := &r.records
	rec.Tally = new(crawl.Tally)
	if rec.Journal, err = client.OpenCollectionLog(r.path("log"), r.id.Robot); err != nil {
		return err
	}
	r.closers = append(r.closers, rec.Journal)
	if rec.Found, err = client.OpenFound(r.path("discovered")); err != nil {
		return err
	}
	r.closers = append(r.closers, rec.Found)
	if rec.Frontier, err = frontier.Open(r.path("frontier"), r.state.Number()); err != nil {
		return err
	}
	r.closers = append(r.closers, rec.Frontier)
	if err := r.forgetOthers(); err != nil {
		return err
	}
	if rec.Ledger, err = batch.OpenLedger(r.path("coverage.tsv")); err != nil {
		return err
	}
	r.closers = append(r.closers, rec.Ledger)
	rec.Batches, err = batch.Open(r.cfg.DataDir, r.list.List().Generation, batch.Options{
		Robot: r.id.Robot, Version: Version, Key: r.id.Key, Log: r.log, MaxOpen: min(openFiles()/2, maxOpen),
		Ledger: rec.Ledger, Clock: r.client.Clock, Signed: r.cfg.Identity.Sign != "", Made: func() { r.uploader.Wake() }, // r.uploader is set before anything is sealed
		Writer: archive.WriterOptions{Level: r.cfg.Batch.Level, MaxBody: r.cfg.Page.MaxBytes, TempDir: temp},
	})
	if err != nil {
		return err
	}
	r.closers = append(r.closers, rec.Batches)
	if r.tap, err = openTap(&r.cfg, r.log); r.tap != nil {
		r.closers = append(r.closers, r.tap)
		rec.Tap = r.tap
	}
	return err
}

// forgetOthers forgets hosts that are not in the list: an earlier process was killed while a host
// went to another robot, or came from one.
func (r *Robot) forgetOthers() error {
	if !r.list.List().Known() {
		return nil
	}
	names, err := r.records.Frontier.Names()
	if err != nil {
		return err
	}
	mine := r.list.Hosts()
	for _, name := range names {
		if mine[name] == nil {
			if err := r.records.Frontier.Forget(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// openManners opens what keeps the robot polite.
func (r *Robot) openManners() error {
	group, err := config.Ranges(r.cfg.Network.Ranges)
	if err != nil {
		return err
	}
	man := &r.manners
	man.Agent, man.Shared = userAgent(&r.cfg), polite.NewLibrary()
	man.Addresses = polite.NewAddresses(r.cfg.Interval, cmp.Or(r.cfg.Adapt.Min, r.cfg.Interval), r.client.Offset)
	if man.Rules, err = polite.OpenRules(r.path("robots")); err != nil {
		return err
	}
	if man.Restraints, err = polite.OpenRestraints(r.path("restraints")); err != nil {
		return err
	}
	r.closers = append(r.closers, man.Restraints)
	man.Gate = polite.NewGate(polite.GateOptions{
		Interval: r.cfg.Interval, Max: r.cfg.Adapt.Max, Group: group, Addresses: man.Addresses,
		Recall: func(addr netip.Addr) (time.Time, time.Duration) {
			s := man.Restraints.Address(addr)
			return s.Until, s.Every
		},
	})
	guard := polite.NewGuard(polite.GuardOptions{
		Free: r.cfg.Disk.Free, Spool: r.cfg.Disk.Spool, Disk: polite.DiskOf(r.cfg.DataDir), Held: r.records.Batches.Held,
	})
	if err := guard.Look(); err != nil {
		return err
	}
	man.Admission, err = polite.NewAdmission(&r.cfg, man.Gate, guard, man.Lease, r.log)
	return err
}

// openCrawls puts the crawler together, and the parts that drive it.
func (r *Robot) openCrawls(source fetch.Source) (err error) {
	if r.servers, err = revisit.OpenServers(r.path("servers")); err != nil {
		return err
	}
	pace := &revisit.Pace{
		Interval: r.cfg.Interval, Pages: r.cfg.Run.Pages, List: r.list, Restraints: r.manners.Restraints, Slot: r.manners.Gate.Slot,
	}
	watching := revisit.PagesOptions{
		Dir: r.cfg.DataDir, Settings: r.cfg.Watch, Active: r.cfg.Watch.Every > 0 && !r.cfg.Once,
		Policy:   revisit.WatchPolicy{By: config.Rule(r.cfg.Revisit.By), Least: r.cfg.Watch.Every, Most: cmp.Or(r.cfg.Cycle, 24*time.Hour)},
		Frontier: r.records.Frontier, Servers: r.servers, Pace: pace, Plan: r.plan, List: r.list, MayVisit: r.mayVisit,
	}
	if r.records.Watched, err = revisit.OpenPages(watching); err != nil {
		return err
	}
	if r.orders, err = revisit.OpenOrders(watching, r.log); err != nil {
		return err
	}
	r.crawler = crawl.New(crawl.Parts{
		Settings: &r.cfg, Plan: r.plan, Manners: r.manners, Records: r.records, Fetcher: r.fetcher, Source: source, Sketcher: page.NewSketcher(),
		Servers: r.servers, Pace: pace, Orders: r.orders, List: r.list, Log: r.log,
	})
	r.program = newProgram(&r.cfg, r.id, r.keys, r.client, r.world.web, r.log)
	r.session = newSession(r)
	return nil
}

// mayVisit reports whether a host may be visited now, as far as the host itself is concerned.
func (r *Robot) mayVisit(host string, now time.Time) bool {
	quiet := r.manners.Admission.Quiet(host)
	return !r.manners.Restraints.Get(host).Until.After(now) && (quiet == nil || !quiet.Open(now))
}

// Close lets go of the data folder. Open segments stay open on disk; the next New goes on with
// them.
func (r *Robot) Close() error {
	var errs []error
	if r.manners.Admission != nil {
		errs = append(errs, r.manners.Admission.SaveUsage())
	}
	for _, c := range slices.Backward(r.closers) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
