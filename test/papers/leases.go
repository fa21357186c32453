package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/lease"
	"sheaf/internal/lease/quorum"
	"sheaf/internal/loop"
	"sheaf/internal/testkit"
)

// leaseTTL is short, since a server grants nothing for that time after its start.
const leaseTTL = 2 * time.Second

// grantors are servers of leases, all on this machine.
type grantors struct {
	t       testing.TB
	members []string
	servers []*quorum.Locker
}

var leaseSecret = []byte("the secret of the papers' servers")

// start starts n more servers. They know the servers of the first call as the members.
func (g *grantors) start(n int) {
	var listeners []net.Listener
	var added []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		testkit.Must(g.t, err)
		listeners, added = append(listeners, l), append(added, l.Addr().String())
	}
	if g.members == nil {
		g.members = added
	}
	for i, l := range listeners {
		g.servers = append(g.servers, g.open(quorum.Options{Listener: l, Address: added[i], File: filepath.Join(g.t.TempDir(), "leases")}))
	}
}

func (g *grantors) client() *quorum.Locker { return g.open(quorum.Options{}) }

// open opens a server or a client, which is closed in the end.
func (g *grantors) open(opt quorum.Options) *quorum.Locker {
	opt.TTL, opt.Members, opt.Secret = leaseTTL, g.members, leaseSecret
	l, err := quorum.Open(opt)
	testkit.Must(g.t, err)
	g.t.Cleanup(func() { l.Close() })
	return l
}

// leases makes the rows of paper 002.
func leases(t testing.TB) []row {
	var by []string
	for n := 1; n <= 6; n++ {
		g := &grantors{t: t}
		g.start(n)
		by = append(by, milliseconds(entering(t, g.client())))
		for _, server := range g.servers {
			testkit.Must(t, server.Close())
		}
	}
	dir := t.TempDir()
	d, err := db.Open(t.Context(), filepath.Join(dir, "leases.db"))
	testkit.Must(t, err)
	defer d.Close()
	present, err := lease.Appear(dir)
	testkit.Must(t, err)
	defer present.Close()
	ofDatabase := entering(t, lease.NewDB(d, present, lease.Options{}))
	const differs = "medians of 20; all on this machine; a fencing token is written to each server's disk, too"
	return []row{
		{"002", "Fig. 1–2", "ms to enter, by 1 to 6 servers", "grows in steps of two servers; about 150 at 6", strings.Join(by, " "), differs},
		{"002", "", "ms to enter, by the database (SQLite)", "", milliseconds(ofDatabase), ""},
		{"002", "Fig. 3", "messages a second and server, with 1, 3, 5 and 7 servers, and at most in a second while two join", "falls again after each change, by the chart", leaseLoad(t), "10 clients ask every 1.5 s and not every 15"},
	}
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000)
}

// entering returns the median time from asking for a name until it is held, when nobody else asks.
func entering(t testing.TB, l lease.Locker) time.Duration {
	var all []time.Duration
	for n := range 21 {
		asked := time.Now()
		testkit.Must(t, l.Do(t.Context(), "name", func(context.Context, int64) error {
			if n > 0 { // the first waits until the servers grant anything
				all = append(all, time.Since(asked))
			}
			return nil
		}))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// leaseLoad measures how many messages a second each server gets as further servers join.
func leaseLoad(t testing.TB) string {
	g := &grantors{t: t}
	g.start(1)
	operator := g.client()
	defer g.askers(10)()
	var calm []string
	most := 0.0
	for joins := 0; ; joins++ {
		time.Sleep(leaseTTL)
		calm = append(calm, fmt.Sprintf("%.0f", g.load(2*1500*time.Millisecond)))
		if joins == 3 {
			return strings.Join(calm, " ") + fmt.Sprintf("; %.0f", most)
		}
		g.start(2)
		changing := make(chan error, 1)
		go func() {
			changing <- operator.Change(t.Context(), func(now []string) ([]string, error) {
				for _, s := range g.servers[len(now):] {
					now = append(slices.Clone(now), s.Address())
				}
				return now, nil
			})
		}()
		for over := false; !over; {
			most = max(most, g.load(time.Second))
			select {
			case err := <-changing:
				testkit.Must(t, err)
				over = true
			default:
			}
		}
	}
}

// askers lets n clients hold names for a moment again and again, until stop is called.
func (g *grantors) askers(n int) (stop func()) {
	ctx, cancel := context.WithCancel(g.t.Context())
	var clients sync.WaitGroup
	for n := range n {
		c := g.client()
		clients.Go(func() {
			for ctx.Err() == nil {
				_ = c.Do(ctx, fmt.Sprint("name ", n%3), func(context.Context, int64) error { return nil }) // ends with ctx
				loop.Pause(ctx, 1500*time.Millisecond)
			}
		})
	}
	return func() {
		cancel()
		clients.Wait()
	}
}

// load returns how many messages a server gets in a second: the mean of all servers over a time.
func (g *grantors) load(d time.Duration) float64 {
	count := func() (n int64) {
		for _, s := range g.servers {
			n += s.Served()
		}
		return n
	}
	before := count()
	time.Sleep(d)
	return float64(count()-before) / d.Seconds() / float64(len(g.servers))
}
