package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/lease"
	"sheaf/internal/lease/quorum"
	"sheaf/internal/loop"
)

// leaseTTL is short, since a server grants nothing for that time after its start.
const leaseTTL = 2 * time.Second

// grantors are servers of leases, all on this machine.
type grantors struct {
	dir     string
	members []string
	servers []*quorum.Locker
}

var leaseSecret = []byte("the secret of the papers' servers")

// start starts n more servers. They know the servers of the first call as the members.
func (g *grantors) start(n int) error {
	var listeners []net.Listener
	var added []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		listeners, added = append(listeners, l), append(added, l.Addr().String())
	}
	if g.members == nil {
		g.members = added
	}
	for i, l := range listeners {
		s, err := quorum.Open(quorum.Options{
			Options: lease.Options{TTL: leaseTTL}, Members: g.members, Secret: leaseSecret,
			Listener: l, Address: added[i], File: filepath.Join(g.dir, strings.ReplaceAll(added[i], ":", "_")),
		})
		if err != nil {
			return err
		}
		g.servers = append(g.servers, s)
	}
	return nil
}

func (g *grantors) client() (*quorum.Locker, error) {
	return quorum.Open(quorum.Options{Options: lease.Options{TTL: leaseTTL}, Members: g.members, Secret: leaseSecret})
}

func (g *grantors) close() {
	for _, s := range g.servers {
		s.Close()
	}
}

// leases makes the rows of paper 002.
func leases() (rows []row, err error) {
	dir, err := os.MkdirTemp("", "papers-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	var by []string
	for n := 1; n <= 6; n++ {
		g := &grantors{dir: dir}
		if err := g.start(n); err != nil {
			return nil, err
		}
		c, err := g.client()
		if err != nil {
			return nil, err
		}
		took, err := entering(ctx, c)
		if err != nil {
			return nil, err
		}
		by = append(by, milliseconds(took))
		c.Close()
		g.close()
	}
	d, err := db.Open(ctx, filepath.Join(dir, "leases.db"))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	present, err := lease.Appear(dir)
	if err != nil {
		return nil, err
	}
	defer present.Close()
	ofDatabase, err := entering(ctx, lease.NewDB(d, present, lease.Options{}))
	if err != nil {
		return nil, err
	}
	load, err := leaseLoad(ctx, dir)
	if err != nil {
		return nil, err
	}
	const differs = "medians of 20; all on this machine; a fencing token is written to each server's disk, too"
	return []row{
		{"002", "Fig. 1–2", "ms to enter, by 1 to 6 servers", "grows in steps of two servers; about 150 at 6", strings.Join(by, " "), differs},
		{"002", "", "ms to enter, by the database (SQLite)", "", milliseconds(ofDatabase), ""},
		{"002", "Fig. 3", "messages a second and server, with 1, 3, 5 and 7 servers, and at most in a second while two join", "falls again after each change, by the chart", load, "10 clients ask every 1.5 s and not every 15"},
	}, nil
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000)
}

// entering returns the median time from asking for a name until it is held, when nobody else asks.
func entering(ctx context.Context, l lease.Locker) (time.Duration, error) {
	var all []time.Duration
	for n := range 21 {
		asked := time.Now()
		err := l.Do(ctx, "name", func(context.Context, int64) error {
			if n > 0 { // the first waits until the servers grant anything
				all = append(all, time.Since(asked))
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// leaseLoad measures how many messages a second each server gets as further servers join.
func leaseLoad(ctx context.Context, dir string) (string, error) {
	g := &grantors{dir: dir}
	defer g.close()
	if err := g.start(1); err != nil {
		return "", err
	}
	operator, err := g.client()
	if err != nil {
		return "", err
	}
	defer operator.Close()
	stop, err := g.askers(ctx, 10)
	if err != nil {
		return "", err
	}
	defer stop()
	var calm []string
	most := 0.0
	for joins := 0; ; joins++ {
		time.Sleep(leaseTTL)
		calm = append(calm, fmt.Sprintf("%.0f", g.load(2*1500*time.Millisecond)))
		if joins == 3 {
			return strings.Join(calm, " ") + fmt.Sprintf("; %.0f", most), nil
		}
		if err := g.start(2); err != nil {
			return "", err
		}
		changing := make(chan error, 1)
		go func() {
			changing <- operator.Change(ctx, func(now []string) ([]string, error) {
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
				if err != nil {
					return "", err
				}
				over = true
			default:
			}
		}
	}
}

// askers lets n clients hold names for a moment again and again, until stop is called.
func (g *grantors) askers(ctx context.Context, n int) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var clients sync.WaitGroup
	stop = func() {
		cancel()
		clients.Wait()
	}
	for n := range n {
		c, err := g.client()
		if err != nil {
			stop()
			return nil, err
		}
		clients.Go(func() {
			defer c.Close()
			for ctx.Err() == nil {
				_ = c.Do(ctx, fmt.Sprint("name ", n%3), func(context.Context, int64) error { return nil }) // ends with ctx
				loop.Pause(ctx, 1500*time.Millisecond)
			}
		})
	}
	return stop, nil
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
