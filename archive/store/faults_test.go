package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
	"sheaf/internal/testkit"
)

// On a store whose methods all fail at random, in every way, acknowledged objects are neither lost
// nor changed. An object whose Put was not acknowledged is complete or absent.
func TestFaultsLoseNothing(t *testing.T) {
	testkit.Slow(t)
	t.Run("fs", func(t *testing.T) { t.Parallel(); loseNothing(t, openFS(t, t.TempDir())) })
	t.Run("versitygw", func(t *testing.T) { t.Parallel(); loseNothing(t, openS3(t, storetest.StartVersity(t).Options(t))) })
}

func loseNothing(t *testing.T, bare store.Store) {
	chance := rand.New(rand.NewPCG(3, 4))
	faults := map[string]int{}
	decide := func(op, _ string) storetest.Outcome {
		if chance.IntN(3) > 0 {
			return storetest.Works
		}
		outcome := []storetest.Outcome{storetest.Fails, storetest.FailsButHappened, storetest.Truncates, storetest.Stalls}[chance.IntN(4)]
		if outcome == storetest.Stalls && chance.IntN(10) > 0 {
			outcome = storetest.Fails // waiting for each would take too long
		}
		faults[op]++
		return outcome
	}
	s := store.NewRetry(&storetest.Fault{Store: bare, Decide: decide, DecideRead: decide}, quick)
	there, unknown := map[string]string{}, map[string]bool{} // objects that were acknowledged, and those of unknown outcome
	for n := range 400 {
		key := fmt.Sprintf("k/%d", chance.IntN(40))
		data := strings.Repeat(fmt.Sprintf("%d of %s ", n, key), 1+chance.IntN(2000))
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond) // ends a call that stalls
		switch chance.IntN(4) {
		case 0:
			if err := s.Delete(ctx, key); err == nil {
				delete(there, key)
			} else {
				unknown[key] = true
			}
		case 1:
			if got, err := fetch(ctx, s, key); err == nil && !unknown[key] && got != there[key] {
				t.Errorf("%s: read %d bytes, acknowledged were %d", key, len(got), len(there[key]))
			} else if errors.Is(err, store.ErrNotExist) && !unknown[key] && there[key] != "" {
				t.Errorf("%s was acknowledged and is lost", key)
			}
		default:
			_, taken := there[key]
			err := s.Put(ctx, key, strings.NewReader(data), int64(len(data)))
			switch {
			case unknown[key]: // and stays so: a Put that was given up may still happen
			case err == nil && taken:
				t.Errorf("%s: put twice", key)
			case err == nil:
				there[key] = data
			case errors.Is(err, store.ErrExists) && !taken:
				t.Errorf("%s: somebody else's object", key)
			case !errors.Is(err, store.ErrExists):
				unknown[key] = true
			}
		}
		cancel()
	}
	for key, want := range there {
		if got, err := fetch(t.Context(), bare, key); !unknown[key] && (err != nil || got != want) {
			t.Errorf("%s was acknowledged with %d bytes: %d, %v", key, len(want), len(got), err)
		}
	}
	for key := range unknown {
		if got, err := fetch(t.Context(), bare, key); err == nil && !strings.HasSuffix(got, "of "+key+" ") {
			t.Errorf("%s is there in part", key)
		} else if err != nil && !errors.Is(err, store.ErrNotExist) {
			t.Error(err)
		}
	}
	listed := 0
	for _, err := range s.List(t.Context(), "", "") {
		if err == nil {
			listed++
		}
	}
	t.Logf("faults %v; %d objects acknowledged, %d outcomes unknown, %d listed", faults, len(there), len(unknown), listed)
	for _, op := range []string{"put", "delete", "open", "stat"} {
		if faults[op] < 5 {
			t.Errorf("%d faults of %s: too few to say anything", faults[op], op)
		}
	}
}

func fetch(ctx context.Context, s store.Store, key string) (string, error) {
	r, err := s.Open(ctx, key, 0, -1)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(r)
	return string(data), errors.Join(err, r.Close())
}

// If a service stops answering, a call ends with its context. A call without a deadline ends when
// the connection has stalled for too long.
func TestS3Stalls(t *testing.T) {
	testkit.Slow(t)
	o := storetest.StartVersity(t).Options(t)
	stalls, end := new(atomic.Bool), make(chan struct{})
	proxy(t, &o, func(r *http.Request) {
		if stalls.Load() {
			select {
			case <-end:
			case <-r.Context().Done():
			}
		}
	}, func(*http.Request) bool { return false })
	t.Cleanup(func() { close(end) })
	patient := openS3(t, o)
	o.Stall = 300 * time.Millisecond
	hasty := openS3(t, o)
	stalls.Store(true)
	large := make([]byte, 16<<20)
	for name, do := range map[string]func(ctx context.Context, s store.Store) error{
		"put": func(ctx context.Context, s store.Store) error { return s.Put(ctx, "k", strings.NewReader("data"), 4) },
		"large put": func(ctx context.Context, s store.Store) error {
			return s.Put(ctx, "l", bytes.NewReader(large), int64(len(large)))
		},
		"open":   func(ctx context.Context, s store.Store) error { _, err := s.Open(ctx, "k", 0, -1); return err },
		"stat":   func(ctx context.Context, s store.Store) error { _, err := s.Stat(ctx, "k"); return err },
		"delete": func(ctx context.Context, s store.Store) error { return s.Delete(ctx, "k") },
		"list": func(ctx context.Context, s store.Store) (err error) {
			for _, err = range s.List(ctx, "", "") {
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			if err := do(ctx, patient); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("cancelled: %v", err)
			}
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), testkit.Patience)
			defer cancel()
			if err := do(ctx, hasty); err == nil || errors.Is(err, store.ErrNotExist) || ctx.Err() != nil {
				t.Errorf("stalled: %v", err)
			}
		})
	}
}

// A body that ends early is noticed; Retry reads the rest.
func TestS3CutBody(t *testing.T) {
	o := storetest.StartVersity(t).Options(t)
	target, err := url.Parse(o.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	var cuts atomic.Int64
	p := httputil.NewSingleHostReverseProxy(target)
	p.ErrorLog = log.New(io.Discard, "", 0)
	p.ModifyResponse = func(r *http.Response) error {
		if r.Request.Method == http.MethodGet && cuts.Add(-1) >= 0 {
			half := io.LimitReader(r.Body, r.ContentLength/2)
			r.Body = io.NopCloser(io.MultiReader(half, iotest.ErrReader(io.ErrUnexpectedEOF)))
		}
		return nil
	}
	server := httptest.NewUnstartedServer(p)
	server.Config.ErrorLog = p.ErrorLog
	server.Start()
	defer server.Close()
	o.Endpoint = server.URL
	s := openS3(t, o)
	want := strings.Repeat("0123456789", 100000)
	if err := s.Put(t.Context(), "k", strings.NewReader(want), int64(len(want))); err != nil {
		t.Fatal(err)
	}
	cuts.Store(1)
	if got, err := fetch(t.Context(), s, "k"); !errors.Is(err, io.ErrUnexpectedEOF) || len(got) >= len(want) {
		t.Errorf("read %d of %d bytes, %v", len(got), len(want), err)
	}
	cuts.Store(3)
	if got, err := fetch(t.Context(), store.NewRetry(s, quick), "k"); err != nil || got != want {
		t.Errorf("with retry: %d of %d bytes, %v", len(got), len(want), err)
	}
}

// A service that is killed in the middle of puts, repeatedly, keeps all that it acknowledged.
func TestS3Killed(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	g := storetest.StartVersity(t)
	s := store.NewRetry(openS3(t, g.Options(t)), store.RetryOptions{Attempts: 100, First: 20 * time.Millisecond, Most: 500 * time.Millisecond})
	const kills, writers = 5, 4
	acknowledged := make(chan string, 10000)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := 0; !stop.Load() && n < 1000; n++ {
				key := fmt.Sprintf("w%d/%d", w, n)
				if err := s.Put(t.Context(), key, bytes.NewReader(killedData(key)), int64(len(killedData(key)))); err != nil {
					t.Errorf("%s: %v", key, err)
					return
				}
				acknowledged <- key
			}
		})
	}
	for range kills {
		had := len(acknowledged)
		testkit.Until(t, "ten more objects", func() bool { return len(acknowledged) >= had+10 || t.Failed() })
		g.Kill()
		g.Start(t)
	}
	stop.Store(true)
	wg.Wait()
	close(acknowledged)
	n := 0
	for key := range acknowledged {
		if got, err := fetch(t.Context(), s, key); err != nil || got != string(killedData(key)) {
			t.Errorf("%s was acknowledged: %d bytes, %v", key, len(got), err)
		}
		n++
	}
	t.Logf("%d kills, %d objects acknowledged", kills, n)
}

func killedData(key string) []byte { return bytes.Repeat([]byte(key), 30000) }
