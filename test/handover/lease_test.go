package handover

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/manager"
)

// Robots join, leave, are killed and started again, are stopped until their leases are over and go
// on then, are declared dead, and hosts move between them: never two of them on one address. A
// front before the web says so: between the end of an answer and the next request lies the
// interval.
//
// With SHEAF_TEST_FULL=1 it is 8 robots and 30 events, or as many as SHEAF_TEST_EVENTS says.
func TestNeverTwoRobotsOnOneAddress(t *testing.T) {
	testkit.Slow(t)
	t.Parallel() // it mostly waits for intervals
	robots, events, lease, interval := 3, 8, 1500*time.Millisecond, 150*time.Millisecond
	hosts, addresses := 12, 6
	if testkit.Full() {
		robots, events, lease, interval = 8, 30, 3*time.Second, 300*time.Millisecond
		hosts, addresses = 48, 24
	}
	if n, err := strconv.Atoi(os.Getenv("SHEAF_TEST_EVENTS")); err == nil {
		events = n
	}
	w := newWeb(t, "127.0.177.1", hosts, addresses, 30)
	w.front = w.stand("127.0.77.1")
	f := newFleet(t, w, lease, interval, nil)
	f.add(w.hosts...)
	for i := range robots {
		f.takePart(f.join(fmt.Sprintf("r%d", i+1)))
	}
	w.visited(10)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 1))
	happened := map[string]int{}
	for n := range events {
		happened[f.happen(chance, n)]++
		w.visited(5)
	}
	s := w.stats()
	gap, where := w.front.least()
	t.Logf("%v: %d requests at %d addresses, least gap %v", happened, s.Requests, s.ByIP.N, gap)
	if gap < interval || s.ByIP.N != addresses {
		t.Errorf("two visits to an address came %v apart, want %v: %s", gap, interval, where)
	}
}

// takePart waits until a robot that was just started takes part. Before, the service cannot miss
// it, and it does not know yet how to end in order.
func (f *fleet) takePart(r *robot) {
	f.t.Helper()
	testkit.Until(f.t, r.name+" takes part", func() bool {
		log, err := os.ReadFile(r.process.Log)
		testkit.Must(f.t, err)
		known := f.known(r.name)
		return strings.Contains(string(log), `msg="cycle `) && known.Subscribed && known.Lapsed.IsZero()
	})
}

// happen lets one of the things happen that move hosts, and says which.
func (f *fleet) happen(chance *rand.Rand, n int) string {
	f.t.Helper()
	awake := f.awake()
	r := awake[chance.IntN(len(awake))]
	event := n % 6 // each of them, in turn
	if n >= 6 {
		event = chance.IntN(6)
	}
	if len(awake) < 2 {
		event = 5
	}
	switch event {
	case 0:
		f.freeze(r)
		testkit.Until(f.t, r.name+"'s hosts are handed on", func() bool { return !f.known(r.name).Lapsed.IsZero() })
		f.web.visited(3)
		f.thaw(r)
		return "stopped past the lease"
	case 1:
		f.kill(r)
		f.web.visited(3)
		f.start(r)
		f.takePart(r)
		return "killed"
	case 2:
		f.leave(r)
		f.web.visited(3)
		f.start(r)
		f.takePart(r)
		return "left and came back"
	case 3:
		f.kill(r)
		f.Operate(http.MethodPost, api.PathAdminRobots+"/"+r.name+"/dead", manager.DeadRequest{Reason: "the test has killed it"}, nil)
		killed := time.Now()
		f.web.visited(3)
		testkit.Until(f.t, r.name+" comes back when the lease that it remembers is over", func() bool { return time.Since(killed) > f.lease })
		f.start(r)
		f.takePart(r)
		return "dead"
	case 4:
		for range 3 {
			host := f.web.hosts[chance.IntN(len(f.web.hosts))]
			f.Operate(http.MethodDelete, api.PathAdminHosts+"/"+host, nil, nil)
			f.web.visited(2)
			f.add(host)
		}
		return "hosts removed and added"
	}
	f.kill(r)
	f.Operate(http.MethodDelete, api.PathAdminRobots+"/"+r.name, nil, nil)
	r.name += " (revoked)"
	f.takePart(f.join(fmt.Sprintf("n%d", n)))
	return "revoked, another joined"
}
