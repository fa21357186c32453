package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/loop"
	"sheaf/internal/wire"
	"sheaf/manager"
	robotclient "sheaf/robotd/client"
	"sheaf/serve/client"
)

// play is one run of the command: what the robots that work at once share.
type play struct {
	options
	operator *client.Client
	figures  *figures
	deliver  *deliveries // nil: robots send no batches
}

// joinAtOnce is how many robots join or leave at once. The service would take more joins from one
// address for guesses.
const joinAtOnce = 4

// all plays the robots until their time is over or ctx ends.
func (p *play) all(ctx context.Context) {
	var robots, joined sync.WaitGroup
	prefix := strings.ToLower(rand.Text()[:6])
	joining, begin := make(chan struct{}, joinAtOnce), make(chan struct{})
	for n := range p.robots {
		r := &robot{play: p, name: fmt.Sprintf("played-%s-%d", prefix, n), list: new(robotclient.List)}
		r.http = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone(), Timeout: time.Minute}
		r.idle = n%4 == 3 && p.deliver == nil
		joined.Add(1)
		robots.Go(func() {
			joining <- struct{}{}
			err := r.join(ctx)
			<-joining
			joined.Done()
			if p.deliver != nil {
				<-begin
			}
			if err == nil {
				r.work(ctx)
			}
			joining <- struct{}{}
			r.leave(context.WithoutCancel(ctx))
			<-joining
		})
	}
	if p.deliver != nil {
		joined.Wait()
		p.deliver.during(ctx, func() {
			close(begin)
			robots.Wait()
		})
		return
	}
	robots.Wait()
}

// robot is one robot. Each has connections of its own, as real ones do.
type robot struct {
	*play
	name, secret string
	http         *http.Client
	idle         bool // it has nothing left, and takes hosts over
	key          ed25519.PrivateKey
	serverKey    ed25519.PublicKey
	manager      *robotclient.Client // nil: it has not joined
	list         *robotclient.List
	generation   atomic.Int64 // of the list
	hosts        []string     // of the list, sorted
	done         int          // heartbeats
}

// tries is how often a request is made at most, if a busy service asks to repeat it.
const tries = 5

func (r *robot) timed(kind string, f func() error) error {
	return r.play.timed(kind, "robot "+r.name, f)
}

// timed makes a request and notes what it took. It repeats the request, as robots and people do, if
// the service asks to try again in a moment.
func (p *play) timed(kind, who string, f func() error) error {
	began := time.Now()
	err := f()
	for n := 1; n < tries && err != nil && strings.Contains(err.Error(), "try again in a moment"); n++ {
		time.Sleep(time.Duration(n) * 100 * time.Millisecond)
		err = f()
	}
	if err != nil {
		err = fmt.Errorf("%s of %s: %w", kind, who, err)
	}
	p.figures.note(kind, time.Since(began), err)
	return err
}

func (r *robot) join(ctx context.Context) error {
	var admitted manager.AdmitResponse
	err := r.timed("admit", func() error {
		return r.operator.Do(ctx, http.MethodPost, api.PathAdminRobots, manager.AdmitRequest{Name: r.name}, &admitted)
	})
	if err != nil {
		return err
	}
	key, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	r.key = private
	var joined wire.JoinResponse
	if err := r.timed("join", func() error {
		anybody := &client.Client{URL: r.operator.URL, HTTP: r.http}
		return anybody.Do(ctx, http.MethodPost, wire.PathJoin, wire.JoinRequest{Token: admitted.Token, Version: "played", PublicKey: key}, &joined)
	}); err != nil {
		return err
	}
	r.secret, r.serverKey = joined.Secret, joined.ServerKey
	r.manager = robotclient.New([]string{strings.TrimSuffix(r.service, "/")}, r.name, r.secret, r.http)
	return r.timed("subscribe", func() error { return r.manager.Subscribe(ctx) })
}

// work fetches the list and sends heartbeats until the time is over. The end of the time cuts off
// no request.
func (r *robot) work(ctx context.Context) {
	r.fetch(context.WithoutCancel(ctx), "first list")
	if r.deliver != nil {
		hosts := slices.Clone(r.hosts) // which the list may not have any more
		sending := sync.WaitGroup{}
		until := ctx // the time is over for heartbeats only
		sending.Go(func() { r.bring(until, hosts) })
		defer sending.Wait()
	}
	ctx, cancel := context.WithTimeout(ctx, r.last)
	defer cancel()
	wait := time.Duration(mathrand.Int64N(int64(r.every))) // not all at once
	for {
		if !loop.Pause(ctx, wait) {
			return
		}
		wait = r.every
		r.beat(context.WithoutCancel(ctx))
	}
}

// fetch fetches the robot's list, if it has changed.
func (r *robot) fetch(ctx context.Context, kind string) {
	r.timed(kind, func() error {
		list, _, err := r.manager.List(ctx, r.list.ETag)
		if list != nil {
			r.list, r.hosts = list, slices.Sorted(maps.Keys(list.Hosts()))
			r.generation.Store(list.Generation)
		}
		return err
	})
}

// beat sends a heartbeat, which confirms the list. If the answer names another list, beat fetches
// that list.
func (r *robot) beat(ctx context.Context) {
	hb := wire.Heartbeat{List: r.list.ETag, Version: "played", Phase: wire.PhaseCollecting, Cycle: 1, Left: 1000, EveryMS: r.every.Milliseconds(), All: true, Hosts: map[string]wire.HostProgress{}}
	r.done++
	if r.idle {
		hb.Phase, hb.Left = wire.PhaseIdle, 0
	}
	for n, host := range r.hosts {
		switch {
		case r.idle:
			hb.Hosts[host] = wire.HostProgress{State: wire.HostDone, Pages: 10}
		case n < 10*r.done:
			hb.Hosts[host] = wire.HostProgress{State: wire.HostBegun, Pages: int64(r.done), Left: 10}
		}
	}
	var orders wire.Orders
	if err := r.timed("heartbeat", func() (err error) {
		orders, _, err = r.manager.Heartbeat(ctx, hb)
		return err
	}); err != nil {
		return
	}
	if orders.List != "" && orders.List != r.list.ETag {
		r.fetch(ctx, "new list")
	}
}

// leave makes the robot leave, and removes it from the service.
func (r *robot) leave(ctx context.Context) {
	if r.manager != nil {
		r.timed("leave", func() error { return r.manager.Unsubscribe(ctx) })
	}
	for _, suffix := range []string{"", "?forget"} {
		r.timed("remove", func() error {
			return r.operator.Do(ctx, http.MethodDelete, api.PathAdminRobots+"/"+r.name+suffix, nil, nil)
		})
	}
	r.http.CloseIdleConnections()
}
