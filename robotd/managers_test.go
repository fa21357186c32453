package robotd

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/robotd/batch"
	"sheaf/robotd/client"
)

// TestNextManager: with the first of two managers dead the robot collects, hands in and reports by
// the second, and by the first again when the second dies.
func TestNextManager(t *testing.T) {
	site := newSite(t, "127.0.0.1")
	site.tree("www.a.test", 30)
	s := newService(t, "http://www.a.test/")
	var mu sync.Mutex
	dead := map[string]bool{"one": true}
	process := func(name string) string {
		to := s.Config.Handler
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			gone := dead[name]
			mu.Unlock()
			if gone { // in the middle of the request, as a process that is killed
				conn, _, err := w.(http.Hijacker).Hijack()
				if err == nil {
					conn.Close()
				}
				return
			}
			to.ServeHTTP(w, r)
		}))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	cfg := testConfig(t, s, map[string]string{"www.a.test": site.addr})
	cfg.Manager = []string{process("one"), process("two")}
	cfg.Upload.Poll = 5 * time.Millisecond
	for _, down := range []string{"one", "two"} {
		mu.Lock()
		clear(dead)
		dead[down] = true
		mu.Unlock()
		if err := Run(t.Context(), cfg, testLog(t)); err != nil {
			t.Fatalf("with %s dead: %v", down, err)
		}
	}
	if n := s.arrived(); n != 2 {
		t.Errorf("%d batches arrived, want 2", n)
	}
	if left, err := filepath.Glob(filepath.Join(cfg.DataDir, "log", "r1.*")); err != nil || len(left) > 0 {
		t.Errorf("logs not handed in: %v, %v", left, err)
	}
}

// TestNoManager: a robot that runs once and never had a list waits for the service for a bounded
// time, says what to do where nothing comes, and not at all where waiting is vain.
func TestNoManager(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(*http.Request) (int, error)
		waits  bool
		says   string
	}{
		"dead":    {func(*http.Request) (int, error) { return 0, errors.New("connection refused") }, true, "robotd check"},
		"ill":     {func(*http.Request) (int, error) { return http.StatusBadGateway, nil }, true, "502"},
		"revoked": {func(*http.Request) (int, error) { return http.StatusUnauthorized, nil }, false, "join again"},
		"other":   {func(*http.Request) (int, error) { return http.StatusNotFound, nil }, false, "setting manager"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t)
			cfg := testConfig(t, s, nil)
			synctest.Test(t, func(t *testing.T) {
				r, err := newRobot(cfg, testLog(t), outside{web: &http.Client{Transport: answers(c.answer)}, rounds: UsualRounds()})
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				began := time.Now()
				err = r.session.AwaitList(t.Context(), onceWait)
				took := time.Since(began)
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("it says %v, want %q", err, c.says)
				}
				if c.waits && (took < onceWait-2*time.Minute || took > onceWait) || !c.waits && took > 0 {
					t.Errorf("it waited for %v", took)
				}
			})
		})
	}
}

// TestFirstStart: a daemon, and a robot that runs once, that start before their service begin when
// it comes.
func TestFirstStart(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	site := newSite(t, "127.0.0.1")
	site.tree("www.a.test", 10)
	s := newService(t, "http://www.a.test/")
	s.mu.Lock()
	s.away = true
	s.mu.Unlock()
	cfg := testConfig(t, s, map[string]string{"www.a.test": site.addr})
	ended := make(chan error, 1)
	go func() { ended <- Run(t.Context(), cfg, testLog(t)) }()
	testkit.Until(t, "questions to the dead service", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.calls[wire.PathSubscribe] > 1
	})
	s.mu.Lock()
	s.away = false
	s.mu.Unlock()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if n := s.arrived(); n != 1 {
		t.Errorf("%d batches arrived, want 1", n)
	}
}

type answers func(*http.Request) (int, error)

func (a answers) RoundTrip(req *http.Request) (*http.Response, error) {
	status, err := a(req)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Status: strconv.Itoa(status) + " " + http.StatusText(status), Body: http.NoBody, Request: req}, nil
}

// TestRestartWithoutAList: while the manager orders a restart and sends no list, what operators
// have set for hosts holds on. The list that it sends then is taken, though its ETag is known.
func TestRestartWithoutAList(t *testing.T) {
	s := newService(t, "http://www.a.test/")
	r, err := New(testConfig(t, s, nil), testLog(t))
	testkit.Must(t, err)
	defer r.Close()
	testkit.Must(t, r.list.Set(&client.List{
		Generation: 1, ETag: `"g1"`, URLs: []string{"http://www.a.test/"}, Intervals: map[string]time.Duration{"www.a.test": time.Hour},
		Omits: map[string][]string{"www.a.test": {"/private/"}},
	}))
	s.goAway(true)
	if err := r.session.restart(t.Context()); err == nil {
		t.Error("a manager that is away has sent a list")
	}
	if r.list.Interval("www.a.test") != time.Hour || !r.list.Omits("www.a.test", "http://www.a.test/private/1") {
		t.Errorf("the interval and the paths to be left out are forgotten: %+v", r.list.List())
	}
	s.goAway(false)
	testkit.Must(t, r.session.restart(t.Context()))
	if r.list.Interval("www.a.test") != 0 {
		t.Error("the list was not got anew")
	}
}

// TestHeldOverRestart: the manager's order to pause holds over a restart with the manager away,
// until it is lifted.
func TestHeldOverRestart(t *testing.T) {
	s := newService(t)
	cfg := testConfig(t, s, nil)
	open := func(check func(*Robot)) {
		t.Helper()
		r, err := New(cfg, testLog(t))
		if err != nil {
			t.Fatal(err)
		}
		check(r)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// order has the manager answer heartbeats with a directive, and returns what it was told.
	order := func(r *Robot, d wire.Directive) wire.Heartbeat {
		t.Helper()
		var told wire.Heartbeat
		s.locked(func() {
			s.away = false
			s.orders = func(hb wire.Heartbeat) wire.Orders {
				told = hb
				return wire.Orders{Directives: []wire.Directive{d}}
			}
		})
		testkit.Must(t, r.session.Beat(t.Context()))
		s.goAway(true)
		return told
	}
	open(func(r *Robot) { order(r, wire.DirectivePause) })
	open(func(r *Robot) {
		if !r.manners.Admission.Paused() {
			t.Error("the pause does not hold over a restart with the manager away")
		}
		if st, err := r.status(0); err != nil || st.Held.IsZero() || !st.Paused.IsZero() {
			t.Errorf("status says held %v, paused %v, %v", st.Held, st.Paused, err)
		}
		if hb := order(r, wire.DirectiveResume); !hb.Held {
			t.Error("the manager is not told that the pause holds")
		}
	})
	open(func(r *Robot) {
		if r.manners.Admission.Paused() {
			t.Error("the order holds although it was lifted")
		}
	})
}

// TestManagerAwayForDays: the robot goes on with its last list each night, keeps batches and logs,
// and hands in all of it, each once and in order, when the manager is back.
func TestManagerAwayForDays(t *testing.T) {
	testkit.Slow(t)
	const days = 4
	cfg := testConfig(t, newService(t), map[string]string{"www.a.test": "192.0.2.1"})
	cfg.Once, cfg.Window, cfg.Poll, cfg.Heartbeat = false, "02:00-06:00 UTC", time.Hour, 5*time.Minute
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)))
		network := newPipes()
		web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/robots.txt" {
				http.NotFound(w, req)
				return
			}
			w.Header().Set("Content-Type", "text/html")
			w.Write([]byte(time.Now().String())) // new each day
		})}
		go web.Serve(network)
		defer web.Close()
		var mu sync.Mutex
		here, logs := false, 0
		manager := answers(func(req *http.Request) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			if !here {
				return 0, errors.New("away")
			}
			switch {
			case strings.HasSuffix(req.URL.Path, "/list"):
				return http.StatusNotModified, nil
			case strings.HasSuffix(req.URL.Path, "/submitlog"):
				logs++
			}
			return http.StatusNoContent, nil
		})
		r, err := newRobot(cfg, testLog(t), outside{dial: network.dial, web: &http.Client{Transport: manager}, rounds: fewRounds()})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.list.Set(&client.List{Generation: 1, URLs: []string{"http://www.a.test/"}}); err != nil {
			t.Fatal(err)
		}
		target := &takesAll{here: func() bool { mu.Lock(); defer mu.Unlock(); return here }}
		r.uploader = batch.NewUploader(batch.UploaderOptions{
			Spool: r.records.Batches, Targets: []batch.Target{target}, Receipts: target, Published: r.published, Quarantined: r.quarantined,
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- r.uploader.Run(ctx) }()
		go func() { ended <- r.runCycles(ctx) }()
		time.Sleep(days * 24 * time.Hour)
		synctest.Wait()
		spool, err := r.records.Batches.Spool()
		if err != nil || len(spool) != days || len(target.got) > 0 {
			t.Errorf("after %d days %d batches wait and %d went out, %v", days, len(spool), len(target.got), err)
		}
		kept, _ := filepath.Glob(filepath.Join(cfg.DataDir, "log", "r1.*"))
		if len(kept) < days {
			t.Errorf("%d logs are kept of %d days", len(kept), days)
		}
		mu.Lock()
		here = true
		mu.Unlock()
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		left, err := r.records.Batches.Spool()
		if err != nil || len(left) > 0 || len(target.got) != days+1 { // this night's too
			t.Errorf("with the manager back, %d batches wait and these went out: %v, %v", len(left), target.got, err)
		}
		for _, b := range spool {
			if !slices.Contains(target.got, b.ID) {
				t.Errorf("batch %s never arrived", b.ID)
			}
		}
		if slices.Sort(target.got); len(slices.Compact(target.got)) != days+1 {
			t.Errorf("a batch went out twice: %v", target.got)
		}
		time.Sleep(12 * time.Hour) // the hour of the log has come
		synctest.Wait()
		mu.Lock()
		if logs < len(kept) {
			t.Errorf("%d logs were handed in, %d were kept", logs, len(kept))
		}
		mu.Unlock()
		stop()
		for range 2 {
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// takesAll is a service that takes every batch while it is here, and publishes it at once.
type takesAll struct {
	here func() bool
	got  []wire.BatchID
	sums map[wire.BatchID]string
}

func (*takesAll) Name() string { return "all" }

func (s *takesAll) Send(_ context.Context, b batch.Spooled) error {
	if !s.here() {
		return &batch.DownError{Err: errors.New("away")}
	}
	if s.sums == nil {
		s.sums = make(map[wire.BatchID]string)
	}
	s.got, s.sums[b.ID] = append(s.got, b.ID), b.SHA256
	return nil
}

func (s *takesAll) Receipt(_ context.Context, id wire.BatchID, _ string) (*wire.Receipt, error) {
	switch {
	case !s.here():
		return nil, errors.New("away")
	case s.sums[id] == "":
		return nil, batch.ErrUnknown
	}
	return &wire.Receipt{Batch: id, SHA256: s.sums[id], State: wire.StatePublished}, nil
}

// TestJoinByTheNext: joining goes on to the next URL where the first cannot be connected to. Where
// the first took the request and died, the token may be used: the next is not asked, and the
// robot's owner is told.
func TestJoinByTheNext(t *testing.T) {
	s := newService(t)
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			conn.Close()
		}
	}))
	defer cut.Close()
	if _, err := Join(t.Context(), cut.URL+","+s.URL, token, t.TempDir()); err == nil {
		t.Error("a robot joined with a token that may be used up")
	}
	dir, dead := filepath.Join(t.TempDir(), "robot"), "http://"+testkit.Addresses(t, 1)[0]
	if _, err := Join(t.Context(), dead, token, dir); err == nil {
		t.Error("a robot joined nobody")
	}
	if name, err := Join(t.Context(), dead+"/, "+s.URL, token, dir); err != nil || name != "r1" {
		t.Fatalf("%q, %v", name, err)
	}
	id, err := client.LoadIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := id.Managers(nil); !slices.Equal(got, []string{dead, s.URL}) {
		t.Errorf("it remembers %q", got)
	}
}
