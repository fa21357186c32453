package robotd

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/robotd/admission"
	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/crawl"
	"sheaf/robotd/fetch"
	"sheaf/robotd/identity"
	"sheaf/robotd/polite"
	"sheaf/robotd/status"
)

// DryRun fetches the list and returns which hosts a robot with these settings would visit first,
// and when. It looks up their addresses but visits none of them. It neither writes to the folder
// nor disturbs a daemon that works there.
func DryRun(ctx context.Context, cfg config.Config) (*status.Plan, error) {
	plan, err := cfg.Plan()
	if err != nil {
		return nil, err
	}
	id, err := identity.Load(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	cfg.Manager = id.Managers(cfg.Manager)
	paused, err := admission.SitePause(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	group, err := polite.Ranges(cfg.Network.Ranges)
	if err != nil {
		return nil, err
	}
	m := client.New(cfg.Manager, id.Robot, id.Secret, http.DefaultClient)
	list, _, err := m.List(ctx, "")
	if err != nil {
		return nil, err
	}
	now := time.Now()
	p := &status.Plan{
		Robot: id.Robot, Manager: m.URL(), UserAgent: cfg.UserAgent(Version), Window: plan.Window.String(),
		Interval: cfg.Interval, Generation: list.Generation, Paused: paused.Since(),
		Unknown: []status.Unknown{}, Visits: []status.Visit{},
	}
	p.From, p.Until = admission.WindowAfter(plan, now.Add(cfg.Interval), now) // a daemon that starts waits for one interval
	hosts := list.Hosts()
	p.Hosts = len(hosts)

	gate := polite.NewGate(polite.GateOptions{Interval: cfg.Interval, Min: cfg.Adapt.Min, Max: cfg.Adapt.Max, Group: group})
	gate.Open(p.From, p.Until)
	at, unknown := lookUp(ctx, fetch.New(lookUpOptions(&cfg)), maps.Keys(hosts))
	p.Unknown = append(p.Unknown, unknown...)
	for _, name := range slices.Sorted(maps.Keys(at)) {
		gate.Add(at[name].Addr(), name)
	}
	slots := make(map[netip.Addr]bool)
	for _, place := range gate.Survey() {
		slots[place.Slot] = true
		p.Visits = append(p.Visits, status.Visit{At: place.At, Host: place.Host, Address: at[place.Host].Addr().String(), URLs: hosts[place.Host]})
	}
	p.Addresses = len(slots)
	slices.SortStableFunc(p.Visits, func(a, b status.Visit) int { return a.At.Compare(b.At) })
	return p, ctx.Err()
}

// lookUp returns the addresses of hosts, and those that have none.
func lookUp(ctx context.Context, f *fetch.Fetcher, hosts iter.Seq[string]) (map[string]netip.AddrPort, []status.Unknown) {
	var mu sync.Mutex // guards at and unknown
	at := make(map[string]netip.AddrPort)
	var unknown []status.Unknown
	var g errgroup.Group
	g.SetLimit(crawl.LookUps)
	for name := range hosts {
		g.Go(func() error {
			addr, err := f.Resolve(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				unknown = append(unknown, status.Unknown{Host: name, Why: err.Error()})
			} else {
				at[name] = addr
			}
			return nil
		})
	}
	_ = g.Wait() // none returns an error
	slices.SortFunc(unknown, func(a, b status.Unknown) int { return strings.Compare(a.Host, b.Host) })
	return at, unknown
}
