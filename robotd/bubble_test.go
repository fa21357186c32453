package robotd

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
	"sheaf/robotd/client"
	"sheaf/robotd/config"
)

// pipes is a network within a bubble of testing/synctest, where a server that is waited for lets
// the clock go on.
type pipes struct {
	conns chan net.Conn
	close func()
	dead  map[string]bool // addresses that refuse connections

	mu     sync.Mutex // guards dialed
	dialed []dialed
}

// dialed is a connection that was made or refused.
type dialed struct {
	address string
	at      time.Time
}

func newPipes() *pipes {
	conns := make(chan net.Conn)
	return &pipes{conns: conns, close: sync.OnceFunc(func() { close(conns) })}
}

func (p *pipes) dial(_ context.Context, _, address string) (net.Conn, error) {
	p.mu.Lock()
	p.dialed = append(p.dialed, dialed{address, time.Now()})
	p.mu.Unlock()
	if p.dead[address] {
		return nil, syscall.ECONNREFUSED
	}
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours, nil
}

func (p *pipes) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// fewRounds are a daemon's whose days last a second: what a round finds is found early enough.
func fewRounds() Rounds {
	return Rounds{
		Status: time.Hour, Size: 10 * time.Minute, Room: 10 * time.Minute,
		Express: 30 * time.Second, QueueDue: 30 * time.Second, Checkpoint: 10 * time.Minute,
	}
}

// away is a manager that cannot be reached.
type away struct{}

func (away) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("away") }

// inBubble opens a robot that collects the seeds' hosts in a network of pipes, and whose manager is
// away.
func inBubble(t *testing.T, cfg config.Config, network *pipes, seeds []string) *Robot {
	t.Helper()
	r, err := newRobot(cfg, testLog(t), outside{dial: network.dial, web: &http.Client{Transport: away{}}, rounds: fewRounds()})
	testkit.Must(t, err)
	testkit.Must(t, r.list.Set(&client.List{Generation: 1, URLs: seeds}))
	return r
}

// nextCycle is when a robot's next cycle is due.
func nextCycle(t *testing.T, r *Robot) time.Time {
	t.Helper()
	s, err := r.Status()
	testkit.Must(t, err)
	return s.Next.Cycle
}

// nights lets the daemon's cycles run for some days in a bubble, from a Thursday midnight (UTC) on,
// against a server for all of the hosts that cfg.Network.Hosts names. Each night may be looked at.
func nights(t *testing.T, cfg config.Config, days int, server http.HandlerFunc, each func(r *Robot, day int)) {
	t.Helper()
	cfg.Once = false
	var seeds []string
	for host := range cfg.Network.Hosts {
		seeds = append(seeds, "http://"+host+"/")
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Date(2004, 1, 1, 0, 0, 0, 0, time.UTC)
		time.Sleep(time.Until(start))
		network := newPipes()
		r := inBubble(t, cfg, network, seeds)
		defer func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}()
		srv := &http.Server{Handler: server}
		go srv.Serve(network)
		defer srv.Close()
		for day := 0; day < days; day++ {
			if err := r.Cycle(t.Context()); err != nil {
				t.Fatal(err)
			}
			if each != nil {
				each(r, day)
			}
			time.Sleep(time.Until(nextCycle(t, r)))
			day = int(time.Since(start).Hours()/24) - 1
		}
	})
}

// answerRaw answers each connection's one request with the bytes that answer returns, and hangs up.
// n counts the requests for the URL from 1.
func (p *pipes) answerRaw(answer func(host, path string, n int) string) {
	seen := make(map[string]int)
	var mu sync.Mutex // guards seen
	for {
		c, err := p.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			r, err := http.ReadRequest(bufio.NewReader(c))
			if err != nil {
				return
			}
			mu.Lock()
			seen[r.Host+r.RequestURI]++
			n := seen[r.Host+r.RequestURI]
			mu.Unlock()
			io.WriteString(c, answer(r.Host, r.RequestURI, n))
		}()
	}
}

// night lets a robot collect for one night in a bubble, from a server that answers with raw bytes.
func night(t *testing.T, cfg config.Config, answer func(host, path string, n int) string, look func(r *Robot)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var seeds []string
		for host := range cfg.Network.Hosts {
			seeds = append(seeds, "http://"+host+"/")
		}
		network := newPipes()
		r := inBubble(t, cfg, network, seeds)
		go network.answerRaw(answer)
		defer network.Close()
		testkit.Must(t, r.Cycle(t.Context()))
		if look != nil {
			look(r)
		}
		testkit.Must(t, r.Close())
	})
}
