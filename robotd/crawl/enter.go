package crawl

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/internal/wire"
	"sheaf/robotd/client"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
	"sheaf/robotd/polite"
	"sheaf/robotd/revisit"
)

// LookUps is how many hosts are looked up at once.
const LookUps = 32

// entrance takes hosts into a crawl.
type entrance struct {
	interval  time.Duration
	lookAgain time.Duration // between two questions for the addresses of hosts that have none
	short     bool
	begun     atomic.Int64 // hosts that got their first place in the gate
	chooser   *revisit.Chooser
	hours     *revisit.Hours
	mender    *mender
	hosts     *Hosts
	admission *polite.Admission
	fetcher   *fetch.Fetcher
	moves     *polite.Moves
	frontier  *frontier.Frontier
	watched   *revisit.Pages
	list      *client.Assignment
	journal   *client.CollectionLog
	log       *slog.Logger
}

func newEntrance(opt *Options, short bool, pipe *Pipeline, hours *revisit.Hours) *entrance {
	cfg, rec := opt.Settings, &opt.Records
	const often = 15 * time.Minute
	return &entrance{
		interval: cfg.Interval, lookAgain: min(often, cfg.Network.Relearn), short: short, hours: hours, hosts: pipe.Hosts(),
		admission: opt.Manners.Admission, fetcher: opt.Fetcher, moves: opt.Manners.Moves, frontier: rec.Frontier, watched: rec.Watched, list: opt.List,
		journal: rec.Journal, log: opt.Log,
		mender: &mender{began: hours.Round.Began, batches: rec.Batches, watched: rec.Watched, pipe: pipe, log: opt.Log},
		chooser: &revisit.Chooser{
			Round: hours.Round, Settings: cfg.Revisit, Pace: opt.Pace, Servers: opt.Servers, Frontier: rec.Frontier, Watched: rec.Watched.Covers,
		},
	}
}

// startAll takes hosts into the crawl, given with their seeds. Every one can take links before the
// first is visited. Otherwise a link between two of them would be taken for one that leads outside.
func (e *entrance) startAll(ctx context.Context, seeds map[string][]string) error {
	var fresh []*Host
	damaged := make(map[string]bool)
	spooled, err := e.mender.spooled()
	if err != nil {
		return err
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(seeds)), func(name string) bool {
		return e.hosts.Get(name) != nil || e.list.List().Waits[name] // it may still be handed over
	})
	rooms, err := e.chooser.Rooms(names)
	if err != nil {
		return err
	}
	var mu sync.Mutex // guards fresh and damaged
	var entering errgroup.Group
	entering.SetLimit(runtime.GOMAXPROCS(0))
	for _, name := range names {
		entering.Go(func() error {
			h, mended, err := e.enter(ctx, name, seeds[name], spooled[name], rooms)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			fresh = append(fresh, h)
			if mended {
				damaged[name] = true
			}
			return nil
		})
	}
	if err := entering.Wait(); err != nil {
		return err
	}
	if err := e.mender.relink(ctx, damaged); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(LookUps)
	for _, h := range fresh {
		g.Go(func() error { return e.start(ctx, h) })
	}
	return g.Wait()
}

// enter opens a host's queue, and mends it if it is damaged. The host can take links from now on,
// but is idle until start.
func (e *entrance) enter(ctx context.Context, name string, seeds []string, spooled int, rooms map[string]float64) (h *Host, mended bool, err error) {
	front, err := e.frontier.Host(name)
	if err != nil {
		return nil, false, err
	}
	if mended, err = e.mender.open(ctx, front, spooled); err != nil {
		return nil, false, err
	}
	list := e.list.List()
	share := list.Shares[name]
	if _, err := front.Push(append(list.Entries(name, seeds), inShare(e.watched.Entries(name), share)...)...); err != nil {
		return nil, false, err
	}
	later, err := e.chooser.Push(front, rooms)
	if err != nil {
		return nil, false, err
	}
	if err := e.watched.Read(name); err != nil {
		return nil, false, err
	}
	h = NewHost(front, share, e.admission.Quiet(name))
	h.SetWaits(list.Waits[name])
	if !e.short { // the cycle has counted them
		h.Later.Store(int64(later))
	}
	e.hosts.Add(h)
	return h, mended, nil
}

// inShare returns the entries that are in a share of their host.
func inShare(entries []frontier.Entry, share wire.Share) []frontier.Entry {
	return slices.DeleteFunc(entries, func(e frontier.Entry) bool { return !share.Has(e.URL) })
}

// start looks up a host's address and lets it be visited, unless it has to wait for another robot.
func (e *entrance) start(ctx context.Context, h *Host) error {
	if h.Waits() {
		return nil
	}
	had := e.chooser.Servers.Get(h.Name).Addr
	addr, err := e.fetcher.ResolveAgain(ctx, h.Name, had)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		if h.SetUnknown() {
			return nil // that is in the log already
		}
		e.log.WarnContext(ctx, "host has no address; it is looked up again", "host", h.Name, "every", e.lookAgain, "err", err)
		return e.journal.Comment("%s: %v", h.Name, err)
	}
	if had.IsValid() && addr.Addr() != had && !e.moves.May(h.Name, addr.Addr()) {
		addr = netip.AddrPortFrom(had, addr.Port()) // it moves when the manager knows
	}
	h.Locate(addr)
	e.hosts.Place(h, 0)
	h.SetIdle(false) // from here on others ask for the address
	// The list may have changed since the crawl began. Whoever changes it stops the host again
	// after.
	if list := e.list.List(); list.Waits[h.Name] || list.Known() && !list.Has(h.Name) {
		h.SetIdle(true)
		return nil
	}
	if !h.Front.Empty() {
		from, _ := e.admission.Planned(time.Now()) // a pause, a full disk or a lost lease may end at any time
		at := e.firstVisit(from)
		if quick := e.hours.Begin(h.Front, h.Home(), from); !e.short && quick.After(from) {
			at = quick
		}
		e.hosts.Begin(h, at)
	}
	return nil
}

// findLost looks up hosts that had no address again and again until ctx ends, since name servers
// fail too. A cycle does not wait for such hosts.
func (e *entrance) findLost(ctx context.Context) error {
	ticker := time.NewTicker(e.lookAgain)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for _, h := range e.hosts.All() {
			if h.Unknown() && ctx.Err() == nil {
				if err := e.start(ctx, h); err != nil {
					return err
				}
			}
		}
	}
}

// atOnce is how many hosts are visited at once when a crawl begins.
const atOnce = 200

// firstVisit spreads the first visits to many hosts over an interval. Otherwise all would come at
// the same moment, in this interval and in every later one.
func (e *entrance) firstVisit(from time.Time) time.Time {
	n := e.begun.Add(1)
	if n <= atOnce {
		return time.Time{}
	}
	const golden = 0.6180339887498949 // spreads any number of hosts evenly
	_, part := math.Modf(float64(n) * golden)
	return from.Add(time.Duration(part * float64(e.interval)))
}

// push queues entries at a host of the crawl.
func (c *Crawl) push(h *Host, entries []frontier.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	n, err := h.Push(entries...)
	if err != nil {
		return fmt.Errorf("%s: %w", h.Name, err)
	}
	if n > 0 {
		c.hosts.Wake(h)
	}
	return nil
}
