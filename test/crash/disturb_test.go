package crash

import (
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/internal/window"
	"sheaf/serve/account"
)

// composeSeconds is the variable that says how long TestCompose disturbs the processes.
const composeSeconds = "SHEAF_COMPOSE_SECONDS"

func composeTime(t testing.TB) time.Duration {
	text := os.Getenv(composeSeconds)
	if text == "" {
		return 2 * time.Minute
	}
	n, err := strconv.Atoi(text)
	testkit.Must(t, err)
	return time.Duration(n) * time.Second
}

// account makes an account, whose password is its name and 's.
func (d *deployment) account(name string, opening *window.Schedule, quota int64) {
	d.t.Helper()
	rate, err := account.ParseRates(fmt.Sprint(quotaRate))
	testkit.Must(d.t, err)
	a := account.Account{Name: name, Domains: []string{"*"}, Window: opening, Rate: rate, Quota: quota}
	testkit.Must(d.t, pick(d.t, d.role("serve")).operate(http.MethodPost, api.PathAdminAccounts, account.NewAccount{Account: a, Password: name + "'s"}, nil))
}

// disturb kills processes until the time is over, now and then while the database is away or the
// store stalls or fails. In the end all work again.
func (d *deployment) disturb(last time.Duration) {
	var away time.Time
	faults := []struct{ begin, end func() }{
		{func() {}, func() {}},
		{func() { d.store.set(stalls) }, func() { d.store.set(works) }},
		{func() { d.store.set(fails) }, func() { d.store.set(works) }},
		{func() { away = time.Now(); d.outages++; d.control.Stop() }, func() { d.control.Start(d.t); d.outage += time.Since(away) }},
	}
	var left []string // processes that this round has not killed yet
	random := testkit.Random(d.t)
	for n := range testkit.For(last) {
		if len(left) < 2 {
			left = slices.Collect(maps.Keys(d.nodes))
			random.Shuffle(len(left), func(i, k int) { left[i], left[k] = left[k], left[i] })
		}
		fault := faults[n%len(faults)]
		fault.begin()
		testkit.Moment(random, 2*time.Second)
		names := left[:1+random.IntN(2)]
		left = left[len(names):]
		for _, name := range names {
			d.nodes[name].program.kill()
			d.kills[strings.TrimRight(name, "123")]++
		}
		testkit.Moment(random, 2*time.Second)
		fault.end()
		for _, name := range names {
			d.nodes[name].program.start()
		}
		for _, name := range names {
			d.nodes[name].ready()
		}
		testkit.Moment(random, 2*time.Second)
	}
}

// Modes of a faultyStore.
const (
	works  = iota
	stalls // nothing goes through
	fails  // requests get 503 or no answer, also after they have been carried out
)

// faultyStore is a proxy before an object store.
type faultyStore struct {
	url          string
	failed, held atomic.Int64

	mu      sync.Mutex // guards what follows
	mode    int
	changed chan struct{} // closed when the mode changes
}

func newFaultyStore(t testing.TB, endpoint string) *faultyStore {
	t.Helper()
	to, err := url.Parse(endpoint)
	testkit.Must(t, err)
	f := &faultyStore{changed: make(chan struct{})}
	through := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // which the client has signed
		},
		ErrorLog: log.New(io.Discard, "", 0), // clients are killed
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.pass(r.Context()) != fails {
			through.ServeHTTP(gated{w, f, r.Context()}, r)
			return
		}
		f.failed.Add(1)
		switch testkit.Random(t).IntN(3) {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 1: // it was done, and nobody is told
			through.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case 2:
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(func() {
		f.set(works)
		server.CloseClientConnections()
		server.Close()
	})
	f.url = server.URL
	return f
}

// pass waits while the store stalls, and returns the mode after that.
func (f *faultyStore) pass(ctx context.Context) int {
	for first := true; ; first = false {
		f.mu.Lock()
		mode, changed := f.mode, f.changed
		f.mu.Unlock()
		if mode != stalls {
			return mode
		}
		if first {
			f.held.Add(1)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return works
		}
	}
}

func (f *faultyStore) set(mode int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode = mode
	close(f.changed)
	f.changed = make(chan struct{})
}

// gated stalls and breaks answers, too.
type gated struct {
	http.ResponseWriter
	store *faultyStore
	ctx   context.Context
}

func (g gated) Write(p []byte) (int, error) {
	if g.store.pass(g.ctx) == fails {
		panic(http.ErrAbortHandler)
	}
	return g.ResponseWriter.Write(p)
}

func (g gated) Unwrap() http.ResponseWriter { return g.ResponseWriter }
