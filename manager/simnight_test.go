package manager_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
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
	"sheaf/manager/levelling"
)

// simulated is a robot that collects the hosts of its list one after the other. It calls the
// manager's real handlers as robotd does, and takes as long for a host as takes says.
type simulated struct {
	t       *testing.T
	handler http.Handler
	name    string
	secret  string
	takes   func(host string) time.Duration

	collected func(host string)

	etag       string
	generation int64
	waiting    []string
	state      map[string]wire.HostProgress // begun and done, since the beginning
	untold     map[string]bool
	told       bool
	done       time.Time // of its last host
	visited    map[string]int
}

func (r *simulated) call(method, path string, body []byte, header ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, bytes.NewReader(body)).WithContext(r.t.Context())
	req.SetBasicAuth(r.name, r.secret)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	return w
}

func (r *simulated) fetchList() {
	w := r.call("GET", "/v1/robots/"+r.name+"/list", nil, "If-None-Match", r.etag)
	if w.Code == http.StatusNotModified {
		return
	}
	if w.Code != http.StatusOK {
		r.t.Errorf("%s: list: %d %s", r.name, w.Code, w.Body)
		return
	}
	r.etag = w.Header().Get("ETag")
	fmt.Sscan(w.Header().Get(wire.HeaderGeneration), &r.generation)
	r.waiting = nil
	for l, err := range wire.ReadHostList(w.Body, 1<<24) {
		if err != nil {
			r.t.Error(err)
			return
		}
		_, host, _ := wire.NormalizeURL(l.URL)
		if r.state[host].State == "" {
			r.waiting = append(r.waiting, host)
		}
	}
}

func (r *simulated) beat(phase wire.Phase) {
	hb := wire.Heartbeat{List: r.etag, Generation: r.generation, Version: "sim", Phase: phase, Cycle: 1, Left: int64(len(r.waiting)), All: !r.told, Hosts: map[string]wire.HostProgress{}}
	for host, p := range r.state {
		hb.Pages, hb.MS, hb.Bytes = hb.Pages+p.Pages, hb.MS+p.MS, hb.Bytes+p.Bytes
		if r.untold[host] || !r.told {
			hb.Hosts[host] = p
		}
	}
	body, err := json.Marshal(hb)
	if err != nil {
		r.t.Error(err)
	}
	w := r.call("POST", "/v1/robots/"+r.name+"/heartbeat", body)
	switch w.Code {
	case http.StatusNoContent:
	case http.StatusOK:
		var orders wire.Orders
		if err := json.Unmarshal(w.Body.Bytes(), &orders); err != nil {
			r.t.Error(err)
		}
		if slices.Contains(orders.Directives, wire.DirectiveRebalance) {
			r.fetchList()
		}
	default:
		r.t.Errorf("%s: heartbeat: %d %s", r.name, w.Code, w.Body)
	}
	r.told = true
	clear(r.untold)
}

// night collects until all hosts have been collected, by any robot.
func (r *simulated) night(over func() bool) {
	const every = 5 * time.Minute
	r.fetchList()
	next := time.Now()
	for len(r.waiting) > 0 || !over() {
		if len(r.waiting) == 0 {
			r.beat(wire.PhaseIdle)
			if len(r.waiting) == 0 {
				time.Sleep(every)
			}
			continue
		}
		host := r.waiting[0]
		r.waiting = r.waiting[1:]
		r.state[host], r.untold[host] = wire.HostProgress{State: wire.HostBegun}, true
		r.visited[host]++
		takes := r.takes(host)
		end := time.Now().Add(takes)
		for time.Now().Before(end) {
			if !time.Now().Before(next) {
				r.beat(wire.PhaseCollecting)
				next = time.Now().Add(every)
			}
			time.Sleep(max(0, min(time.Until(end), time.Until(next))))
		}
		r.state[host], r.untold[host] = wire.HostProgress{State: wire.HostDone, Pages: 50, Bytes: 1 << 20, MS: takes.Milliseconds()}, true
		r.done = time.Now()
		r.collected(host)
	}
}

// The plan for this night is wrong: every twentieth host takes ten times as long, as the paper
// saw, and each line is up to 30 % slower or faster. The manager hands hosts that were not begun
// to idle robots.
func TestNightWithWrongPredictions(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	const robots, hosts = 32, 2000
	static, taking := playNight(t, robots, hosts)
	t.Logf("%d robots, %d hosts: %v by the plan, %v with taking over: %.3f of it", robots, hosts, static, taking, float64(taking)/float64(static))
	if float64(taking) > 0.85*float64(static) {
		t.Errorf("with taking over the night takes %v, want at most 0.85 of the static plan's %v", taking, static)
	}
}

// playNight returns when the last robot ends: if all kept to the plan, and with the manager at
// work.
func playNight(t *testing.T, robots, hosts int) (static, took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "sheaf.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		m := manager.New(d, manager.Options{Key: servicekey.Fixed(ed25519.NewKeyFromSeed(make([]byte, 32))), Dir: t.TempDir(), Resolver: dns{},
			Balance: levelling.Settings{During: true, Lease: 6 * time.Hour}})
		router := mux.NewRouter()
		m.Register(router)
		rnd := rand.New(rand.NewPCG(uint64(robots), 7))
		kb, line, slow := make([]float64, hosts), make([]float64, robots), make([]float64, hosts)
		distance := make([][]float64, robots)
		var crew []*simulated
		for i := range robots {
			distance[i] = make([]float64, hosts)
			line[i] = 0.7 + 0.6*rnd.Float64()
			crew = append(crew, joinSimulated(t, m, router, fmt.Sprintf("r%02d", i)))
		}
		var urls []string
		number := map[string]int{}
		for j := range hosts {
			kb[j], slow[j] = 500*(1+rnd.ExpFloat64()), 1
			if rnd.IntN(20) == 0 {
				slow[j] = 10
			}
			host := fmt.Sprintf("h%04d.test", j)
			number[host] = j
			urls = append(urls, "http://"+host+"/")
			for i := range robots {
				distance[i][j] = 400 * (0.5 + rnd.ExpFloat64())
			}
		}
		if _, err := m.Hosts.AddHosts(t.Context(), urls, nil, assign.Replication{}); err != nil {
			t.Fatal(err)
		}
		// Each robot was asked to measure each host, so its log may have all of them.
		if _, err := d.ExecContext(t.Context(), `INSERT INTO probes (robot, host, asked, done) SELECT r.name, h.name, 1, 1 FROM robots r CROSS JOIN hosts h`); err != nil {
			t.Fatal(err)
		}
		for i, r := range crew {
			var log bytes.Buffer
			err := wire.WriteLog(&log, r.name+".measured", func(yield func(wire.LogLine) bool) {
				for j, u := range urls {
					if !yield(wire.LogLine{URL: u, Got: int64(kb[j] * 1024), Took: time.Duration(kb[j]*distance[i][j]) * time.Millisecond}) {
						return
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if w := r.call("POST", "/v1/robots/"+r.name+"/submitlog", log.Bytes()); w.Code != 200 {
				t.Fatalf("log: %d %s", w.Code, w.Body)
			}
			r.takes = func(host string) time.Duration {
				j := number[host]
				return time.Duration(kb[j]*distance[i][j]*slow[j]*line[i]) * time.Millisecond
			}
		}
		plan, err := m.Levelling.Rebalance(t.Context(), false)
		if err != nil || plan.Makespan > 1.1*plan.Bound || plan.Measured != robots*hosts {
			t.Fatalf("plan %+v, %v", plan, err)
		}
		planned := map[string]string{}
		soonest, first := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64) // end of the first robot
		for _, r := range crew {
			r.fetchList()
			var sum time.Duration
			for _, host := range r.waiting {
				sum += r.takes(host)
				planned[host] = r.name
			}
			static, soonest = max(static, sum), min(soonest, sum)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- m.Run(ctx) }()
		began := time.Now()
		var all sync.WaitGroup
		var mu sync.Mutex // guards collected
		collected := map[string]bool{}
		for _, r := range crew {
			r.collected = func(host string) {
				mu.Lock()
				defer mu.Unlock()
				collected[host] = true
			}
			all.Go(func() {
				r.night(func() bool {
					mu.Lock()
					defer mu.Unlock()
					return len(collected) == hosts || time.Since(began) > 20*time.Duration(plan.Makespan)*time.Millisecond
				})
			})
		}
		all.Wait()
		stop()
		<-ended
		visits, moved := map[string]int{}, 0
		for _, r := range crew {
			took, first = max(took, r.done.Sub(began)), min(first, r.done.Sub(began))
			for host, n := range r.visited {
				visits[host] += n
				if planned[host] != r.name {
					moved++
				}
			}
		}
		t.Logf("the first robot ends at %.2f of the night by the plan, at %.2f with taking over; %d hosts moved",
			float64(soonest)/float64(static), float64(first)/float64(took), moved)
		twice := 0
		for _, n := range visits {
			if n > 1 {
				twice++
			}
		}
		if len(visits) != hosts {
			t.Errorf("%d of %d hosts were collected", len(visits), hosts)
		}
		// A robot may begin a host between its last heartbeat and the move.
		if twice > hosts/20 {
			t.Errorf("%d of %d hosts were collected twice", twice, hosts)
		}
	})
	return static, took
}

func joinSimulated(t *testing.T, m *manager.Manager, handler http.Handler, name string) *simulated {
	t.Helper()
	token, _, err := m.Roster.Admit(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := m.Roster.Join(t.Context(), wire.JoinRequest{Token: token, PublicKey: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Roster.Subscribe(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return &simulated{t: t, handler: handler, name: name, secret: answer.Secret,
		state: map[string]wire.HostProgress{}, untold: map[string]bool{}, visited: map[string]int{}}
}
