package ingest_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/upkeep"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/testkit"
	"sheaf/internal/window"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

func emptyCatalog(t *testing.T) *catalog.Catalog {
	t.Helper()
	objects, err := store.OpenFS(t.TempDir())
	testkit.Must(t, err)
	t.Cleanup(func() { objects.Close() })
	c, err := catalog.Open(t.Context(), objects, catalog.Options{})
	testkit.Must(t, err)
	return c
}

// A host is taken down at the ports at which it is published, and nothing beside it. Once an
// operator has lifted the host's take-down, ports that are published later stay.
func TestTakePorts(t *testing.T) {
	c := emptyCatalog(t)
	publish := func(batch string, hosts ...string) {
		t.Helper()
		var entries []catalog.SegmentEntry
		for _, host := range hosts {
			entries = append(entries, catalog.SegmentEntry{
				Host: host, Object: "segments/" + batch + "/" + host, Length: 1, SHA256: "x", First: time.Unix(1, 0), Last: time.Unix(2, 0),
				Records: 1, Files: 1, Origin: catalog.Origin{Batch: batch, BatchSHA256: batch, Robot: "robot"},
			})
		}
		_, err := c.Publish(t.Context(), catalog.Publication{Batches: []catalog.Batch{{ID: batch, SHA256: batch}}, Entries: catalog.Entries(entries...)})
		testkit.Must(t, err)
	}
	downs := upkeep.NewTakedowns(c, noRecall, slog.New(slog.DiscardHandler))
	take := func(want int) {
		t.Helper()
		n, err := downs.TakePorts(t.Context(), "www.example.jp", "its owner", "ops")
		testkit.Must(t, err)
		if n != want {
			t.Errorf("took %d hosts down, want %d", n, want)
		}
	}
	publish("b1", "www.example.jp", "www.example.jp:81", "www.example.jp:8080", "a.www.example.jp:81", "www.example.jp.test:81")
	_, err := downs.Take(t.Context(), catalog.Tombstone{Host: "www.example.jp", Reason: "its owner", By: "ops"})
	testkit.Must(t, err)
	take(2)
	take(0)
	publish("b2", "www.example.jp:82")
	take(1)
	_, err = c.Restore(t.Context(), catalog.Tombstone{Host: "www.example.jp", Reason: "undone", By: "ops"})
	testkit.Must(t, err)
	publish("b3", "www.example.jp:83")
	take(0)
}

func noRecall(context.Context, string) error { return nil }

// A take-down with a misspelt limit would take the whole host. It is refused, and nothing is
// hidden.
func TestMisspeltTakedown(t *testing.T) {
	c := emptyCatalog(t)
	routes := mux.NewRouter()
	upkeep.NewTakedowns(c, noRecall, slog.New(slog.DiscardHandler)).Register(routes, func(_ operators.Role, _ audit.Act, h http.Handler) http.Handler { return h })
	w := httptest.NewRecorder()
	routes.ServeHTTP(w, httptest.NewRequest("POST", api.PathAdminTakedowns,
		strings.NewReader(`{"host": "www.example.jp", "edtion": "20261121", "reason": "x"}`)))
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `unknown field \"edtion\"`) {
		t.Errorf("answered %d: %s", w.Code, w.Body)
	}
	now, err := c.Pin(t.Context())
	testkit.Must(t, err)
	defer now.Release()
	if stones := now.Tombstones("www.example.jp"); len(stones) > 0 {
		t.Errorf("taken down: %v", stones)
	}
}

// What a robot has published since its key was stolen is taken down at once, also what is published
// later; what it had published before stays, and so does what others bring. The take-down can be
// lifted.
func TestTakeDownOfARobot(t *testing.T) {
	c := emptyCatalog(t)
	publish := func(batch, robot string, hosts ...string) time.Time {
		var entries []catalog.SegmentEntry
		for _, host := range hosts {
			entries = append(entries, catalog.SegmentEntry{
				Host: host, Object: "segments/" + batch + "/" + host, Length: 1, SHA256: "x", First: time.Unix(1, 0), Last: time.Unix(2, 0),
				Records: 1, Files: 1, Origin: catalog.Origin{Batch: batch, BatchSHA256: batch, Robot: robot},
			})
		}
		v, err := c.Publish(t.Context(), catalog.Publication{Batches: []catalog.Batch{{ID: batch, SHA256: batch}}, Entries: catalog.Entries(entries...)})
		testkit.Must(t, err)
		return v.Published
	}
	want := func(when, host string, batches ...string) {
		t.Helper()
		s, err := c.Pin(t.Context())
		testkit.Must(t, err)
		defer s.Release()
		lines, err := s.Host(t.Context(), host)
		testkit.Must(t, err)
		var got []string
		for _, l := range lines {
			got = append(got, l.Batch)
		}
		slices.Sort(got)
		if !slices.Equal(got, batches) {
			t.Errorf("%s, %s shows %v, want %v", when, host, got, batches)
		}
	}
	routes := mux.NewRouter()
	upkeep.NewTakedowns(c, noRecall, slog.New(slog.DiscardHandler)).Register(routes, func(_ operators.Role, _ audit.Act, h http.Handler) http.Handler { return h })
	ask := func(path, body string, status int) {
		t.Helper()
		w := httptest.NewRecorder()
		routes.ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(body)))
		if w.Code != status {
			t.Errorf("%s %s: %d %s, want %d", path, body, w.Code, w.Body, status)
		}
	}
	first := publish("b1", "thief", "a.jp", "b.jp")
	since := publish("b2", "honest", "a.jp")
	for n := 0; !since.After(first); n++ { // both may be of one moment
		since = publish(fmt.Sprintf("c%d", n), "honest", "c.jp")
	}
	publish("b3", "thief", "a.jp")
	ask(api.PathAdminTakedowns, `{"robot": "nobody", "since": "2000-01-01T00:00:00Z", "reason": "x"}`, http.StatusNotFound)
	ask(api.PathAdminTakedowns, `{"robot": "thief", "reason": "no time"}`, http.StatusBadRequest)
	ask(api.PathAdminTakedowns, fmt.Sprintf(`{"robot": "thief", "since": %q, "reason": "its key was stolen"}`, since.Format(time.RFC3339Nano)), http.StatusOK)
	want("taken down", "a.jp", "b1", "b2")
	publish("b4", "thief", "a.jp")
	want("after a late batch", "a.jp", "b1", "b2")
	want("taken down", "b.jp", "b1")
	ask(api.PathAdminLift, `{"robot": "thief", "reason": "it was not"}`, http.StatusOK)
	want("lifted", "a.jp", "b1", "b2", "b3", "b4")
}

// What a thief has sent, and was not published before the robot was revoked, is not published later
// either, whatever fetch times it claims. What had come before the theft is.
func TestStolenKeysBatchesAreNotPublished(t *testing.T) {
	h := newInstallation(t)
	h.opt.Window = window.Never()
	now := time.Now().Add(-2 * time.Hour)
	var passed atomic.Int64
	h.opt.Now = func() time.Time { return now.Add(time.Duration(passed.Load())) }
	h.open().run()
	honest := batchtest.Make(t, h.robots, 1, batchtest.Site("honest.example.jp", 1))
	h.accept(honest)
	h.await(honest.ID, wire.StatePostSplit)
	stolen := now.Add(time.Minute)
	passed.Store(int64(time.Hour))
	forged := batchtest.Make(t, h.robots, 2, batchtest.Site("forged.example.jp", 1))
	h.accept(forged)
	h.await(forged.ID, wire.StatePostSplit)
	h.stop() // the service is killed between the two

	h.robots.Stolen = stolen
	h.open().run()
	routes := mux.NewRouter()
	upkeep.NewTakedowns(h.cat, h.in.Publisher.Recall, slog.New(slog.DiscardHandler)).Register(routes, func(_ operators.Role, _ audit.Act, h http.Handler) http.Handler { return h })
	w := httptest.NewRecorder()
	body := fmt.Sprintf(`{"robot": %q, "since": %q, "reason": "its key was stolen"}`, batchtest.Robot, stolen.Format(time.RFC3339Nano))
	routes.ServeHTTP(w, httptest.NewRequest("POST", api.PathAdminTakedowns, strings.NewReader(body)))
	if w.Code != http.StatusNotFound { // nothing is shown yet
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if r := h.await(forged.ID, wire.StateQuarantined); r.Reason != wire.ReasonHostNotAssigned {
		t.Errorf("receipt %+v", r)
	}
	h.await(honest.ID, wire.StatePostSplit)
	_, n, err := h.in.Publisher.Now(t.Context())
	if testkit.Must(t, err); n != 1 || len(h.lines("honest.example.jp")) != 1 || len(h.lines("forged.example.jp")) != 0 {
		t.Errorf("%d batches are published", n)
	}
	h.fsck()
}
