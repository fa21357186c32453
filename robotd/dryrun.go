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

	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/control"
	"sheaf/robotd/crawl"
	"sheaf/robotd/fetch"
	"sheaf/robotd/polite"
)

// DryRun fetches the list and returns which hosts a robot with these settings would visit first,
// and when. It looks up their addresses but visits none of them. It neither writes to the folder
// nor disturbs a daemon that works there.
func DryRun(ctx context.Context, cfg config.Config) (*control.Plan, error) {
	plan, err := cfg.Plan()
	if err != nil {
		return nil, err
	}
	id, err := client.LoadIdentity(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	cfg.Manager = id.Managers(cfg.Manager)
	paused, err := polite.SitePause(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	group, err := config.Ranges(cfg.Network.Ranges)
	if err != nil {
		return nil, err
	}
	m := client.New(cfg.Manager, id.Robot, id.Secret, http.DefaultClient)
	list, _, err := m.List(ctx, "")
	if err != nil {
		return nil, err
	}
	now := time.Now()
	p := &control.Plan{
		Robot: id.Robot, Manager: m.URL(), UserAgent: userAgent(&cfg), Window: plan.Window.String(),
		Interval: cfg.Interval, Generation: list.Generation, Paused: paused.Since(),
		Unknown: []control.Unknown{}, Visits: []control.Visit{},
	}
	p.From, p.Until = polite.WindowAfter(plan, now.Add(cfg.Interval), now) // a daemon that starts waits for one interval
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
		p.Visits = append(p.Visits, control.Visit{At: place.At, Host: place.Host, Address: at[place.Host].Addr().String(), URLs: hosts[place.Host]})
	}
	p.Addresses = len(slots)
	slices.SortStableFunc(p.Visits, func(a, b control.Visit) int { return a.At.Compare(b.At) })
	return p, ctx.Err()
}

// lookUp returns the addresses of hosts, and the hosts without an address.
func lookUp(ctx context.Context, f *fetch.Fetcher, hosts iter.Seq[string]) (map[string]netip.AddrPort, []control.Unknown) {
	var mu sync.Mutex // guards at and unknown
	at := make(map[string]netip.AddrPort)
	var unknown []control.Unknown
	var g errgroup.Group
	g.SetLimit(crawl.LookUps)
	for name := range hosts {
		g.Go(func() error {
			addr, err := f.Resolve(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				unknown = append(unknown, control.Unknown{Host: name, Why: err.Error()})
			} else {
				at[name] = addr
			}
			return nil
		})
	}
	_ = g.Wait() // none returns an error
	slices.SortFunc(unknown, func(a, b control.Unknown) int { return strings.Compare(a.Host, b.Host) })
	return at, unknown
}
