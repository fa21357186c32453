package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/loop"
	"sheaf/internal/wire"
	"sheaf/manager"
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
		r := &robot{play: p, name: fmt.Sprintf("played-%s-%d", prefix, n), http: &http.Client{Timeout: time.Minute}}
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
	idle         bool   // it has nothing left, and takes hosts over
	list         string // entity tag of its list
	generation   int64  // of the list
	key          ed25519.PrivateKey
	serverKey    ed25519.PublicKey
	hosts        []string // of the list
	done         int      // heartbeats
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

// call makes a request of the robots' protocol. The caller must close the answer's body.
func (r *robot) call(ctx context.Context, method, path string, body any, header ...string) (*http.Response, error) {
	sent, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	path = strings.ReplaceAll(path, "{robot}", url.PathEscape(r.name))
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(r.service, "/")+path, bytes.NewReader(sent))
	if err != nil {
		return nil, err
	}
	if r.secret != "" {
		req.SetBasicAuth(r.name, r.secret)
	}
	for n := 0; n < len(header); n += 2 {
		req.Header.Set(header[n], header[n+1])
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 400 {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return nil, fmt.Errorf("%s: %s", resp.Status, text)
	}
	return resp, nil
}

// answer is call for answers in JSON; into may be nil.
func (r *robot) answer(ctx context.Context, method, path string, body, into any) error {
	resp, err := r.call(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if into == nil || resp.StatusCode == http.StatusNoContent {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
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
		return r.answer(ctx, http.MethodPost, wire.PathJoin, wire.JoinRequest{Token: admitted.Token, Version: "played", PublicKey: key}, &joined)
	}); err != nil {
		return err
	}
	r.secret, r.serverKey = joined.Secret, joined.ServerKey
	return r.timed("subscribe", func() error { return r.answer(ctx, http.MethodPost, wire.PathSubscribe, nil, nil) })
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
		resp, err := r.call(ctx, http.MethodGet, wire.PathList, nil, "If-None-Match", r.list)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusNotModified {
			return nil
		}
		r.hosts = nil
		for line, err := range wire.ReadHostList(resp.Body, 1<<30) {
			if err != nil {
				return err
			}
			if to, err := url.Parse(line.URL); err == nil {
				r.hosts = append(r.hosts, to.Host)
			}
		}
		r.list = resp.Header.Get("ETag")
		r.generation, err = strconv.ParseInt(resp.Header.Get(wire.HeaderGeneration), 10, 64)
		return err
	})
}

// beat sends a heartbeat, which confirms the list. If the answer names another list, beat fetches
// that list.
func (r *robot) beat(ctx context.Context) {
	hb := wire.Heartbeat{List: r.list, Version: "played", Phase: wire.PhaseCollecting, Cycle: 1, Left: 1000, EveryMS: r.every.Milliseconds(), All: true, Hosts: map[string]wire.HostProgress{}}
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
	if err := r.timed("heartbeat", func() error { return r.answer(ctx, http.MethodPost, wire.PathHeartbeat, hb, &orders) }); err != nil {
		return
	}
	if orders.List != "" && orders.List != r.list {
		r.fetch(ctx, "new list")
	}
}

// leave makes the robot leave, and removes it from the service.
func (r *robot) leave(ctx context.Context) {
	if r.secret != "" {
		r.timed("leave", func() error { return r.answer(ctx, http.MethodPost, wire.PathUnsubscribe, nil, nil) })
	}
	for _, suffix := range []string{"", "?forget"} {
		r.timed("remove", func() error {
			return r.operator.Do(ctx, http.MethodDelete, api.PathAdminRobots+"/"+r.name+suffix, nil, nil)
		})
	}
	r.http.CloseIdleConnections()
}
