package handover

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
)

// step is a request by which a hand-over goes on. It has an end on either side: before the service
// has it, and after, when the robot has not heard of it.
type step struct {
	name   string
	robot  string // that sends it
	method string
	path   string // beginning of it
	since  string // name of the step that must have come before; "": none
	told   bool   // only if the answer is 200, so it can only be stopped after
}

const giver, taker = "r1", "r2"

func of(robot, path string) string { return strings.Replace(path, "{robot}", robot, 1) }

// steps are those of a hand-over from r1 to r2, in about their order.
var steps = []step{
	{name: "told", robot: giver, method: http.MethodGet, path: of(giver, wire.PathList), told: true},
	{name: "sealed", robot: giver, method: http.MethodPost, path: wire.PathUploads},
	{name: "uploading", robot: giver, method: http.MethodPatch, path: wire.PathUploads},
	{name: "uploaded", robot: giver, method: http.MethodPut, path: "/v1/batches/" + giver},
	{name: "stored", robot: giver, method: http.MethodPost, path: of(giver, wire.PathHandovers)},
	{name: "confirmed", robot: giver, method: http.MethodGet, path: of(giver, wire.PathList), since: "stored"},
	{name: "given", robot: taker, method: http.MethodGet, path: of(taker, wire.PathList), since: "confirmed", told: true},
	{name: "fetched", robot: taker, method: http.MethodGet, path: of(taker, wire.PathHandovers)},
	{name: "begun", robot: taker, method: http.MethodPost, path: of(taker, wire.PathHeartbeat), since: "fetched"},
}

// breakpoint lies between robots and service. It stops the first request of one step, once.
type breakpoint struct {
	to     http.Handler
	die    func() // called before the request is cut off
	struck chan struct{}

	mu    sync.Mutex // guards what follows
	armed bool
	at    string // name of the step
	after bool
	done  map[string]bool // steps that have come
}

func newBreakpoint(t *testing.T, service, at string, after bool) (b *breakpoint, address string) {
	to, err := url.Parse(service)
	testkit.Must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	b = &breakpoint{to: proxy, struck: make(chan struct{}), at: at, after: after, done: map[string]bool{}}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	return b, server.URL
}

// arm lets the steps count from now on.
func (b *breakpoint) arm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed = true
}

// stepOf returns the step that a request is; nil: none.
func (b *breakpoint) stepOf(r *http.Request) *step {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.armed {
		return nil
	}
	for i := range steps {
		s := &steps[i]
		if !b.done[s.name] && r.Method == s.method && strings.HasPrefix(r.URL.Path, s.path) && (s.since == "" || b.done[s.since]) {
			return s
		}
	}
	return nil
}

func (b *breakpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := b.stepOf(r)
	if s == nil {
		b.to.ServeHTTP(w, r)
		return
	}
	if s.name == b.at && !b.after && b.strike(s) {
		panic(http.ErrAbortHandler)
	}
	answer := &held{header: http.Header{}}
	b.to.ServeHTTP(answer, r)
	answer.WriteHeader(http.StatusOK) // unless it has a status
	if answer.code/100 == 2 || answer.code == http.StatusNotModified && !s.told {
		if s.name == b.at && b.after && b.strike(s) {
			panic(http.ErrAbortHandler)
		}
		b.mu.Lock()
		b.done[s.name] = true
		b.mu.Unlock()
	}
	for name, values := range answer.header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.code)
	w.Write(answer.body.Bytes()) // a robot that is gone asks again
}

// held is an answer that is held back.
type held struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (h *held) Header() http.Header         { return h.header }
func (h *held) Write(p []byte) (int, error) { return h.body.Write(p) }

func (h *held) WriteHeader(code int) {
	if h.code == 0 && code >= http.StatusOK { // smaller ones come before the answer
		h.code = code
	}
}

// strike lets die what is to die, unless that has happened.
func (b *breakpoint) strike(s *step) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done[s.name] {
		return false
	}
	b.done[s.name] = true
	b.die()
	close(b.struck)
	return true
}

// trial is one hand-over with a crash.
type trial struct {
	who   string // giver, taker or manager
	at    string
	after bool
	gone  bool // it does not come back
}

func (c trial) String() string {
	when, end := "before", "and comes back"
	if c.after {
		when = "after"
	}
	if c.gone {
		end = "for good"
	}
	return fmt.Sprintf("%s dies %s %s, %s", c.who, when, c.at, end)
}

// trials returns every crash of giver, taker and manager at every step, and the deaths for good.
func trials() (all []trial) {
	for _, s := range steps {
		for _, after := range []bool{false, true} {
			if s.told && !after {
				continue
			}
			all = append(all, trial{who: s.robot, at: s.name, after: after}, trial{who: "manager", at: s.name, after: after})
		}
	}
	return append(all,
		trial{who: giver, at: "told", after: true, gone: true},
		trial{who: giver, at: "stored", gone: true},
		trial{who: giver, at: "stored", after: true, gone: true},
		trial{who: giver, at: "confirmed", after: true, gone: true},
	)
}

// However giver, taker or manager crash while a host is handed over: every page is visited, nothing
// that was uploaded is lost, and no page is visited twice but those that a dead robot had in memory
// or takes with it.
//
// With SHEAF_TEST_FULL=1 it is every step.
func TestCrashAtEachStep(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	all := trials()
	if !testkit.Full() {
		all = []trial{{who: giver, at: "stored"}, {who: taker, at: "fetched", after: true}, {who: "manager", at: "stored", after: true}}
	}
	for n, c := range all {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			c.run(t, n)
		})
	}
}

func (c trial) run(t *testing.T, n int) {
	const hosts, pages, interval = 2, 24, 60 * time.Millisecond
	w := newWeb(t, fmt.Sprintf("127.0.83.%d", 1+hosts*n), hosts, hosts, pages)
	f := &fleet{}
	var die, back func()
	if c.who == "manager" {
		p := startDaemon(t, "access.anonymous=*")
		f.Service, die, back = p.Service, p.kill, p.start
	} else {
		f = newFleet(t, w, 1500*time.Millisecond, interval, map[string]any{"access.anonymous": "*"})
	}
	service := f.At.HTTP
	b, address := newBreakpoint(t, service, c.at, c.after)
	f.t, f.program, f.dir, f.web, f.interval, f.cycle, f.width = t, testkit.Build(t, "./cmd/robotd"), t.TempDir(), w, interval, 24*time.Hour, 100
	f.At.HTTP = address // where robots join
	f.add(w.hosts...)
	byName := map[string]*robot{giver: f.join(giver)}
	w.visited(5 * hosts)
	b.die = func() {
		if die == nil {
			f.kill(byName[c.who])
			return
		}
		die()
	}
	b.arm()
	if c.who == taker {
		byName[taker] = f.admit(taker)
		f.start(byName[taker])
	} else {
		byName[taker] = f.join(taker)
	}
	testkit.Receive(t, c.String(), b.struck)
	before := w.stats()
	switch {
	case back != nil:
		back()
	case c.gone:
		f.Operate(http.MethodPost, api.PathAdminRobots+"/"+c.who+"/dead", manager.DeadRequest{Reason: "the test has killed it"}, nil)
	default:
		f.start(byName[c.who])
	}
	testkit.Until(t, "all pages", func() bool { return w.stats().Unique == hosts*pages })
	for _, r := range byName {
		if r.runs {
			f.leave(r)
		}
	}
	s := w.stats()
	t.Logf("%d pages given for %d, least gap %.3f s", s.Pages, s.Unique, s.ByIP.MinGap)
	if s.ByIP.MinGap < interval.Seconds() || s.ByIP.MaxConcurrency > 1 {
		t.Errorf("two requests at one address came %.3f s apart, and %d at once", s.ByIP.MinGap, s.ByIP.MaxConcurrency)
	}
	again := int64(hosts) // those that were under way
	switch {
	case !c.gone:
		c.published(t, service, w, pages)
	case c.at == "told" || !c.after: // nothing is known of what the robot has visited
		again = before.Unique
	default: // but of the host that it has handed over, some of whose pages it had visited
		again = before.Unique - 3
	}
	if s.Pages > s.Unique+again {
		t.Errorf("%d pages were visited again, and %d may be", s.Pages-s.Unique, again)
	}
}

// published waits until every page is in the archive.
func (c trial) published(t *testing.T, service string, w *web, pages int) {
	t.Helper()
	for _, host := range w.hosts {
		testkit.Eventually(t, "all pages of "+host+" are published", func() error {
			resp, err := http.Get(service + "/v1/cdx?output=cdxj&url=" + url.QueryEscape(host+"/*"))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			var text bytes.Buffer
			if _, err := text.ReadFrom(resp.Body); err != nil {
				return err
			}
			found := map[string]bool{}
			for line := range strings.Lines(text.String()) {
				key, _, _ := strings.Cut(line, " ")
				found[key] = true
			}
			if len(found) < pages {
				return fmt.Errorf("%s: %d pages of %d:\n%s", resp.Status, len(found), pages, text.String())
			}
			return nil
		})
	}
}
