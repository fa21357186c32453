package robotd

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
)

// TestDeadAddressIsNotADeadHost: a host of which one address takes no connection is collected at
// another one, once the manager knows. No two connections to its addresses are nearer than the
// interval, and no page counts as failed.
func TestDeadAddressIsNotADeadHost(t *testing.T) {
	t.Parallel()
	const first, second, third, pages = "192.0.2.1:80", "192.0.2.2:80", "[2001:db8::1]:80", 5
	for _, c := range []struct {
		name  string
		dead  []string
		robot string // where its robots.txt is
		want  string
	}{
		{"none", nil, "", first},
		{"the lowest", []string{first}, "", second},
		{"all of IPv4", []string{first, second}, "", third},
		{"that of a robots.txt elsewhere", []string{"192.0.2.7:80"}, "www.b.test", first},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := testConfig(t, newService(t), map[string]string{
				"www.a.test": first + " " + third + " " + second, "www.b.test": "192.0.2.8:80 192.0.2.7:80",
			})
			cfg.Interval, cfg.Window, cfg.Page.Tries = 20*time.Second, "02:00-08:00 UTC", 1
			var mu sync.Mutex
			taken := make(map[string]bool)
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case r.URL.Path == "/robots.txt" && c.robot != "" && r.Host != c.robot:
					http.Redirect(w, r, "http://"+c.robot+"/robots.txt", http.StatusFound)
				case r.URL.Path == "/robots.txt":
					http.NotFound(w, r)
				default:
					taken[r.URL.Path] = true
					linkTo(w, pages)
				}
			})}
			synctest.Test(t, func(t *testing.T) {
				network := newPipes()
				network.dead = make(map[string]bool)
				for _, address := range c.dead {
					network.dead[address] = true
				}
				r := inBubble(t, cfg, network, []string{"http://www.a.test/"})
				go server.Serve(network)
				defer server.Close()
				told := tellMoves(r)
				testkit.Must(t, r.Cycle(t.Context()))
				told()
				if got := spooledCoverage(t, r, "www.a.test"); got.Collected != pages+1 || len(got.Failed) > 0 {
					t.Errorf("%d pages, want %d, and none failed: %+v", got.Collected, pages+1, got)
				}
				testkit.Must(t, r.Close())
				at, last := 0, make(map[string]time.Time)
				for _, d := range network.dialed {
					for host, addresses := range cfg.Network.Hosts {
						if !strings.Contains(addresses, d.address) {
							continue
						}
						if gap := d.at.Sub(last[host]); gap < cfg.Interval {
							t.Errorf("%v after one of the connections to %s, one to its %s", gap, host, d.address)
						}
						last[host] = d.at
					}
					if d.address == c.want {
						at++
					}
				}
				if at < pages+1 || len(taken) != pages+1 {
					t.Errorf("%d connections to %s, and %d pages; want %d", at, c.want, len(taken), pages+1)
				}
			})
		})
	}
}

// tellMoves tells the manager of the robot's moves, until the function that it returns is called.
func tellMoves(r *Robot) (end func()) {
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(2 * time.Second):
				r.manners.Moves.Told(r.manners.Moves.Found())
			}
		}
	}()
	return func() { close(ended) }
}

// A name server may name addresses without end. If several in a row take no connection, the host
// has failed, and rests.
func TestManyDeadAddresses(t *testing.T) {
	t.Parallel()
	var all []string
	dead := make(map[string]bool)
	for i := range 40 {
		all = append(all, fmt.Sprintf("192.0.2.%d:80", i+1))
		dead[all[i]] = true
	}
	cfg := testConfig(t, newService(t), map[string]string{"www.a.test": strings.Join(all, " ")})
	cfg.Interval, cfg.Window, cfg.Page.Tries = 20*time.Second, "02:00-08:00 UTC", 1
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		network.dead = dead
		r := inBubble(t, cfg, network, []string{"http://www.a.test/"})
		told := tellMoves(r)
		defer told()
		testkit.Must(t, r.Cycle(t.Context()))
		testkit.Must(t, r.Close())
		n := 1 // connections until the host rests
		for n < len(network.dialed) && network.dialed[n].at.Sub(network.dialed[n-1].at) < 2*time.Minute {
			n++
		}
		if n < 2 || n > 10 {
			t.Errorf("the host rests after %d of %d connections", n, len(network.dialed))
		}
	})
}
