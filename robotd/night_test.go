package robotd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/robotd/batch"
)

// inbox is a service that publishes every batch as it arrives.
type inbox struct {
	mu  sync.Mutex // guards all below
	got map[wire.BatchID]arrival
}

type arrival struct {
	at   time.Time
	size int64
}

func (i *inbox) Name() string { return "inbox" }

func (i *inbox) Send(_ context.Context, b batch.Spooled) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.got[b.ID] = arrival{time.Now(), b.Size}
	return nil
}

func (i *inbox) Receipt(_ context.Context, id wire.BatchID, sha256 string) (*wire.Receipt, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, ok := i.got[id]; !ok {
		return nil, batch.ErrUnknown
	}
	return &wire.Receipt{Batch: id, SHA256: sha256, State: wire.StatePublished}, nil
}

// newest returns when the last batch came, and how many there are.
func (i *inbox) newest() (at time.Time, n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, a := range i.got {
		if a.at.After(at) {
			at = a.at
		}
	}
	return at, len(i.got)
}

// endless is a site whose pages link to ever more pages.
func endless(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/robots.txt" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	var n int
	fmt.Sscanf(r.URL.Path, "/%d.html", &n)
	fmt.Fprintf(w, "<title>Page %d</title> <a href=/%d.html>one</a> <a href=/%d.html>other</a>", n, 2*n+1, 2*n+2)
}

// direct is the way to a service in the same bubble.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	d.ServeHTTP(w, r)
	answer := w.Result()
	answer.Request = r
	return answer, nil
}

// What the night has collected is on its way to the service as soon as the night is over: because
// the window closes, with which the cycle's time ends, or because another robot gets the last host.
// Before that the status says how long it waits.
func TestNightsBatchGoesOutAtOnce(t *testing.T) {
	t.Parallel()
	hosts := []string{"http://www.a.test/", "http://www.b.test/"}
	manager := newService(t, hosts...)
	cfg := testConfig(t, manager, map[string]string{"www.a.test": "192.0.2.1:80", "www.b.test": "192.0.2.2:80"})
	cfg.Once, cfg.Interval, cfg.Window, cfg.Poll = false, 5*time.Minute, "00:00-06:00 UTC", 5*time.Minute
	synctest.Test(t, func(t *testing.T) {
		at := func(day, hour int) time.Time { return time.Date(2004, 1, day, hour, 0, 0, 0, time.UTC) }
		time.Sleep(time.Until(at(1, 12)))
		network, service := newPipes(), &inbox{got: make(map[wire.BatchID]arrival)}
		srv := &http.Server{Handler: http.HandlerFunc(endless)}
		go srv.Serve(network)
		defer srv.Close()
		r, err := newRobot(cfg, testLog(t), outside{dial: network.dial, web: &http.Client{Transport: direct{manager.Config.Handler}}, rounds: fewRounds()})
		testkit.Must(t, err)
		defer func() { testkit.Must(t, r.Close()) }()
		r.uploader = batch.NewUploader(batch.UploaderOptions{Spool: r.records.Batches, Targets: []batch.Target{service}, Receipts: service})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		running.Go(func() { testkit.Must(t, r.uploader.Run(ctx)) })
		running.Go(func() {
			if err := r.runCycles(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("the cycles end with %v", err)
			}
		})
		arrived := func(over time.Time) {
			t.Helper()
			synctest.Wait()
			newest, n := service.newest()
			if newest.Before(over) {
				t.Errorf("at %v the last of %d batches is of %v, and the night was over at %v", time.Now(), n, newest, over)
			}
			if s, err := r.Status(); err != nil || s.Segments+s.Sealing > 0 || len(s.Spool) > 0 {
				t.Errorf("at %v the status has %d bytes in segments, %d being made into a batch, %d batches, %v", time.Now(), s.Segments, s.Sealing, len(s.Spool), err)
			}
		}
		for day := 2; day <= 4; day++ {
			time.Sleep(time.Until(at(day, 3)))
			if s, err := r.Status(); err != nil || s.Segments == 0 || !s.Open || !s.Changes.Equal(at(day, 6)) {
				t.Errorf("at night the status has %d bytes in segments, until %v, %v", s.Segments, s.Changes, err)
			}
			time.Sleep(time.Until(at(day, 6).Add(30 * time.Second)))
			arrived(at(day, 6))
		}
		for hour, left := range [][]string{hosts, hosts[1:], nil} {
			time.Sleep(time.Until(at(5, hour)))
			manager.assign(left...)
			time.Sleep(cfg.Poll + 30*time.Second)
			if left == nil {
				arrived(at(5, hour))
			}
		}
	})
}
