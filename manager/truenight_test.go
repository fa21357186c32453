package manager_test

import (
	"bytes"
	"container/heap"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/db"
	"sheaf/internal/servicekey"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/assign"
	"sheaf/manager/balance"
	"sheaf/manager/levelling"
)

// site is a robot's site in a simulated world: what its program and its line can do.
type site struct {
	width int     // transfers at once
	gap   float64 // seconds between two visits to a host
	line  float64 // KB a second; +Inf: as much as the servers send
}

// world is what robots and hosts are like. No manager knows it.
type world struct {
	sites []site
	pages []float64   // by host
	kb    []float64   // by host, of a page
	pace  [][]float64 // by robot and host: seconds for 1 KB from the server, if the line has room
}

// visit is one answer of a simulated night.
type visit struct {
	host     int
	end      float64 // seconds since the night began
	took     float64 // seconds
	kb       float64
	lastPage bool
}

// flow is a transfer that has begun.
type flow struct {
	host        int
	began, left float64 // seconds; KB
}

// ready is a host whose next visit may begin at a time.
type ready struct {
	at   float64
	host int
}

type readyHeap []ready

func (h readyHeap) Len() int           { return len(h) }
func (h readyHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h readyHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *readyHeap) Push(x any)        { *h = append(*h, x.(ready)) }
func (h *readyHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// night simulates what robotd does in a night: it begins all hosts at once, visits each one again
// when the gap has passed since the end of the last visit, makes at most width transfers at a
// time, and these share its line.
func (w *world) night(robot int, hosts []int, rnd *rand.Rand) (visits []visit) {
	s := w.sites[robot]
	left := map[int]int{}
	due := &readyHeap{}
	for _, j := range hosts {
		left[j] = max(1, int(w.pages[j]*(0.95+0.1*rnd.Float64())))
		heap.Push(due, ready{rnd.Float64(), j})
	}
	var flows []flow
	now := 0.0
	for len(flows) > 0 || due.Len() > 0 {
		for len(flows) < s.width && due.Len() > 0 && (*due)[0].at <= now {
			r := heap.Pop(due).(ready)
			flows = append(flows, flow{r.host, now, w.kb[r.host] * (0.7 + 0.6*rnd.Float64())})
		}
		if len(flows) == 0 {
			now = (*due)[0].at
			continue
		}
		share := s.line / float64(len(flows))
		speed := func(f flow) float64 { return min(1/w.pace[robot][f.host], share) }
		next := math.Inf(1)
		for _, f := range flows {
			next = min(next, f.left/speed(f))
		}
		if len(flows) < s.width && due.Len() > 0 {
			next = min(next, max(0, (*due)[0].at-now))
		}
		for k := range flows {
			flows[k].left -= speed(flows[k]) * next
		}
		now += next
		flows = slices.DeleteFunc(flows, func(f flow) bool {
			if f.left > 1e-9 {
				return false
			}
			left[f.host]--
			visits = append(visits, visit{f.host, now, now - f.began, w.kb[f.host], left[f.host] == 0})
			if left[f.host] > 0 {
				heap.Push(due, ready{now + s.gap, f.host})
			}
			return true
		})
	}
	return visits
}

// times returns the transfer time in ms of each host's pages at each robot.
func (w *world) times() [][]float64 {
	t := make([][]float64, len(w.sites))
	for i := range t {
		for j := range w.pages {
			t[i] = append(t[i], w.pages[j]*w.kb[j]*w.pace[i][j]*1000)
		}
	}
	return t
}

func hostName(j int) string { return fmt.Sprintf("h%04d.test", j) }

// nightly is a robot of a world, which speaks with the manager's handlers.
type nightly struct {
	*simulated
	world  *world
	number int
	cycle  int64
	answer map[string]wire.ProbeResult // to be told
	asked  int                         // probes so far
	worked float64                     // seconds of the last night
}

// hosts returns the numbers of the hosts of its list.
func (r *nightly) hosts() (list []int) {
	clear(r.state)
	r.etag = ""
	r.fetchList()
	for _, host := range r.waiting {
		var j int
		fmt.Sscanf(host, "h%04d.test", &j)
		list = append(list, j)
	}
	return list
}

// tell sends a heartbeat and measures what its answer asks for.
func (r *nightly) tell(hb wire.Heartbeat) {
	hb.Cycle, hb.Version, hb.List, hb.Generation, hb.Probes = r.cycle, "sim", r.etag, r.generation, r.answer
	body, err := json.Marshal(hb)
	testkit.Must(r.t, err)
	w := r.call("POST", "/v1/robots/"+r.name+"/heartbeat", body)
	r.answer = map[string]wire.ProbeResult{}
	var orders wire.Orders
	switch w.Code {
	case http.StatusNoContent:
	case http.StatusOK:
		testkit.Must(r.t, json.Unmarshal(w.Body.Bytes(), &orders))
	default:
		r.t.Errorf("%s: heartbeat: %d %s", r.name, w.Code, w.Body)
	}
	if slices.Contains(orders.Directives, wire.DirectiveRebalance) { // a host goes on when its robot knows the new list
		r.fetchList()
	}
	for _, ask := range orders.Probes {
		_, host, err := wire.NormalizeURL(ask.URL)
		testkit.Must(r.t, err)
		var j int
		fmt.Sscanf(host, "h%04d.test", &j)
		kb := r.world.kb[j] * float64(ask.Files)
		r.answer[host] = wire.ProbeResult{Files: ask.Files, Bytes: int64(kb * 1024), MS: int64(kb * r.world.pace[r.number][j] * 1000)}
		r.asked++
	}
}

const (
	beatEvery = 5 * time.Minute
	restEvery = 15 * time.Minute // real robots send as many as by night; fewer take the test less time
)

// collect lives through a night with a list of hosts and the day after it, until the time given.
func (r *nightly) collect(list []int, rnd *rand.Rand, until time.Time) {
	r.cycle++
	visits := r.world.night(r.number, list, rnd)
	time.Sleep(time.Duration(1+r.number) * time.Second) // one by one, when all have their lists
	began := time.Now()
	var log bytes.Buffer
	hour := time.Time{}
	testkit.Must(r.t, wire.WriteLog(&log, fmt.Sprintf("%s.%d", r.name, r.cycle), func(yield func(wire.LogLine) bool) {
		for _, v := range visits {
			if at := began.Add(time.Duration(v.end * 1e9)); at.Truncate(time.Hour) != hour {
				hour = at.Truncate(time.Hour)
			}
			line := wire.LogLine{URL: "http://" + hostName(v.host) + "/", Got: int64(v.kb * 1024), Took: time.Duration(v.took * 1e9), At: hour}
			if !yield(line) {
				return
			}
		}
	}))
	progress := map[string]wire.HostProgress{}
	for _, j := range list {
		progress[hostName(j)] = wire.HostProgress{State: wire.HostBegun}
	}
	hb := wire.Heartbeat{Phase: wire.PhaseCollecting, Left: int64(len(visits)), All: true, Hosts: progress}
	r.tell(hb)
	for n := 0; n < len(visits); {
		time.Sleep(beatEvery)
		hb.All, hb.Hosts = false, map[string]wire.HostProgress{}
		for ; n < len(visits) && visits[n].end <= time.Since(began).Seconds(); n++ {
			v := visits[n]
			p := progress[hostName(v.host)]
			p.Pages, p.Bytes, p.MS = p.Pages+1, p.Bytes+int64(v.kb*1024), p.MS+int64(v.took*1000)
			hb.Pages, hb.Bytes, hb.MS = hb.Pages+1, hb.Bytes+int64(v.kb*1024), hb.MS+int64(v.took*1000)
			if v.lastPage {
				p.State = wire.HostDone
			}
			progress[hostName(v.host)], hb.Hosts[hostName(v.host)] = p, p
		}
		if hb.Left = int64(len(visits) - n); hb.Left == 0 {
			hb.Phase = wire.PhaseIdle
		}
		r.tell(hb)
	}
	r.worked = 0
	if len(visits) > 0 {
		r.worked = visits[len(visits)-1].end
	}
	if w := r.call("POST", "/v1/robots/"+r.name+"/submitlog", log.Bytes()); w.Code != 200 {
		r.t.Errorf("log: %d %s", w.Code, w.Body)
	}
	hb.Hosts, hb.Phase = nil, wire.PhaseResting
	for time.Until(until) > 100*time.Minute { // probes are asked for by two at a time, and are over when the night begins
		time.Sleep(restEvery)
		r.tell(hb)
	}
	time.Sleep(time.Until(until))
}

// live has the robots of a world collect for some nights, with the manager's plan at 01:00 before
// each. after is called when all have ended a night, with the hosts' robots in that night.
func (w *world) live(t *testing.T, nights int, after func(t *testing.T, m *manager.Manager, night int, crew []*nightly, plan balance.Plan)) {
	synctest.Test(t, func(t *testing.T) {
		d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "sheaf.db"))
		testkit.Must(t, err)
		defer d.Close()
		m := manager.New(d, manager.Options{Key: servicekey.Fixed(ed25519.NewKeyFromSeed(make([]byte, 32))), Dir: t.TempDir(), Resolver: dns{},
			Balance: levelling.Settings{At: "01:00", Lease: 48 * time.Hour, Probes: 4}})
		router := mux.NewRouter()
		m.Register(router)
		var crew []*nightly
		for i := range w.sites {
			crew = append(crew, &nightly{simulated: joinSimulated(t, m, router, fmt.Sprintf("r%02d", i)), world: w, number: i})
		}
		var urls []string
		for j := range w.pages {
			urls = append(urls, "http://"+hostName(j)+"/")
		}
		_, err = m.Hosts.AddHosts(t.Context(), urls, nil, assign.Replication{})
		testkit.Must(t, err)
		time.Sleep(2 * time.Hour) // it is 02:00
		for night := range nights {
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- m.Run(ctx) }()
			until := time.Now().Add(24 * time.Hour)
			for _, r := range crew { // each says that it has given up what the plan has moved
				r.hosts()
				testkit.Must(t, m.Assignments.Confirm(t.Context(), r.name, r.generation))
			}
			plan := make(balance.Plan, len(w.pages))
			var all sync.WaitGroup
			given := 0
			for i, r := range crew {
				list := r.hosts()
				for _, j := range list {
					plan[j] = i
				}
				given += len(list)
				rnd := rand.New(rand.NewPCG(uint64(night), uint64(i)))
				all.Go(func() { r.collect(list, rnd, until) })
			}
			if given != len(plan) {
				t.Errorf("night %d: robots have %d of %d hosts", night+1, given, len(plan))
			}
			all.Wait()
			stop()
			<-ended
			after(t, m, night, crew, plan)
		}
	})
}

// mixed returns a world of robots that are bound by different things: by the interval, by their
// width, or by their lines.
func mixed(seed uint64, robots, hosts int) *world {
	rnd := rand.New(rand.NewPCG(seed, 99))
	w := &world{}
	slow := make([]float64, robots)
	for i := range robots {
		s := site{width: 100, gap: 20, line: math.Inf(1)}
		slow[i] = 0.01 * math.Exp(0.4*rnd.NormFloat64())
		switch i % 4 {
		case 1:
			s.width = 1 + rnd.IntN(2)
			slow[i] *= 6
		case 2:
			s.line = 12 + 12*rnd.Float64()
		case 3:
			s.width = 4
		}
		w.sites, w.pace = append(w.sites, s), append(w.pace, nil)
	}
	for range hosts {
		w.pages = append(w.pages, math.Min(600, 20+120*math.Exp(0.6*rnd.NormFloat64())))
		w.kb = append(w.kb, 60*math.Exp(0.5*rnd.NormFloat64()))
		host := math.Exp(0.4 * rnd.NormFloat64())
		for i := range w.sites {
			w.pace[i] = append(w.pace[i], slow[i]*host*math.Exp(0.3*rnd.NormFloat64()))
		}
	}
	return w
}

// The plan says when each robot will end. After a night that has taught what the robots can do,
// that is right within a tenth at the median.
func TestPredictedNights(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	var errors []float64
	nights, robots, hosts := testkit.Size(2, 7), testkit.Size(4, 8), testkit.Size(40, 200)
	for seed := range testkit.Size(1, 2) {
		w := mixed(uint64(seed), robots, hosts)
		w.live(t, nights, func(t *testing.T, m *manager.Manager, night int, crew []*nightly, _ balance.Plan) {
			status, err := m.Levelling.Status(t.Context())
			testkit.Must(t, err)
			latest := 0.0
			for _, r := range crew {
				latest = max(latest, r.worked)
			}
			for _, n := range status.Nights {
				if n.Cycle != int64(night+1) {
					continue
				}
				var r *nightly
				for _, c := range crew {
					if c.name == n.Robot {
						r = c
					}
				}
				t.Logf("night %d, %s: predicted %.0f s by %s, took %.0f s (manager: %.0f), %+v", night+1, n.Robot, n.Predicted/1000, n.Binds, r.worked, n.Worked/1000, w.sites[r.number])
				if n.Predicted > 0 {
					errors = append(errors, math.Abs(n.Predicted/1000-r.worked)/r.worked)
				}
			}
			t.Logf("night %d ends after %.0f s; plan moved %d, ends %.0f s, bound %.0f s", night+1, latest, status.Plan.Moved, status.Plan.Makespan/1000, status.Plan.Bound/1000)
		})
	}
	slices.Sort(errors)
	if len(errors) < robots*(nights-1) {
		t.Fatalf("only %d predictions", len(errors))
	}
	median := errors[len(errors)/2]
	t.Logf("%d predictions: median error %.3f, nine in ten within %.3f", len(errors), median, errors[len(errors)*9/10])
	if median > 0.10 {
		t.Errorf("the median error is %.3f, want at most 0.10", median)
	}
}

// Robots that are bound by the interval end no sooner with fewer hosts. Then nothing moves, and the
// plan says why.
func TestNothingMovesWhereNothingEndsSooner(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	w := &world{
		sites: []site{{width: 100, gap: 20, line: math.Inf(1)}, {width: 100, gap: 20, line: math.Inf(1)}},
		pace:  make([][]float64, 2),
	}
	for j := range 20 {
		pages := 4.0
		if j%2 == 0 { // one robot gets the long ones, the other the short ones
			pages = 150
		}
		w.pages, w.kb = append(w.pages, pages), append(w.kb, 50)
		for i := range w.pace {
			w.pace[i] = append(w.pace[i], 0.002)
		}
	}
	w.live(t, 2, func(t *testing.T, m *manager.Manager, night int, _ []*nightly, _ balance.Plan) {
		status, err := m.Levelling.Status(t.Context())
		testkit.Must(t, err)
		if night == 0 {
			return
		}
		if status.Plan.Made.IsZero() || status.Plan.Moved > 0 || !strings.Contains(status.Plan.Why[0], "intervals") {
			t.Errorf("plan %+v", status.Plan)
		}
		latest := 0.0
		for _, o := range status.Ends {
			if latest = max(latest, o.MS); o.Binds != balance.ByInterval {
				t.Errorf("%+v", o)
			}
		}
		if math.Abs(latest/1000-150*20) > 300 {
			t.Errorf("the last is to end after %.0f s, want 150 pages at 20 s", latest/1000)
		}
	})
}

// learnable returns a world in which transfers alone matter: robots make one at a time, without
// intervals. own says how much the ways between single robots and hosts differ, as a standard
// deviation of logarithms; at 0, the cost of a pair is the robot's factor times the host's.
func learnable(seed uint64, robots, hosts int, own float64) *world {
	rnd := rand.New(rand.NewPCG(seed, 5))
	w := &world{pace: make([][]float64, robots)}
	line := make([]float64, robots)
	for i := range line {
		w.sites = append(w.sites, site{width: 1, line: math.Inf(1)})
		line[i] = 0.1 * math.Exp(0.5*rnd.NormFloat64())
	}
	for range hosts {
		w.pages = append(w.pages, math.Round(3+12*rnd.Float64()))
		w.kb = append(w.kb, 4*math.Exp(4+1.2*rnd.NormFloat64()))
		host := math.Exp(0.5 * rnd.NormFloat64())
		for i := range w.pace {
			w.pace[i] = append(w.pace[i], line[i]*host*math.Exp(own*rnd.NormFloat64()))
		}
	}
	return w
}

// After three nights the hosts are with robots where the fourth night ends nearly as soon as by the
// best plan, which knows all costs. Most pairs were never measured by then.
func TestConvergence(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	const robots, hosts = 8, 200
	for _, kind := range []struct {
		name string
		own  float64
		most float64 // of the optimum, on night 4
	}{{"robot × host", 0, 1.15}, {"pairs differ", 1, 1.5}} {
		t.Run(kind.name, func(t *testing.T) {
			for seed := range 2 {
				w := learnable(uint64(seed), robots, hosts, kind.own)
				costs, err := balance.Matrix(w.times())
				testkit.Must(t, err)
				best := balance.Optimal(costs).Makespan
				var ratios []float64
				asked := 0
				w.live(t, 7, func(t *testing.T, _ *manager.Manager, _ int, crew []*nightly, plan balance.Plan) {
					ratios = append(ratios, math.Round(1000*plan.Makespan(costs)/best)/1000)
					asked = 0
					for _, r := range crew {
						asked += r.asked
					}
				})
				t.Logf("instance %d: makespan over the optimum by night %v, %d of %d pairs probed", seed, ratios, asked, robots*hosts)
				if ratios[3] > kind.most {
					t.Errorf("instance %d: night 4 takes %.3f of the optimum, want at most %.2f", seed, ratios[3], kind.most)
				}
			}
		})
	}
}
