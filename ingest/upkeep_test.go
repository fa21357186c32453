package ingest_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/ingest/upkeep"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/testkit"
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
	downs := upkeep.NewTakedowns(c, slog.New(slog.DiscardHandler))
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

// A take-down with a misspelt limit would take the whole host. It is refused, and nothing is
// hidden.
func TestMisspeltTakedown(t *testing.T) {
	c := emptyCatalog(t)
	routes := mux.NewRouter()
	upkeep.NewTakedowns(c, slog.New(slog.DiscardHandler)).Register(routes, func(_ operators.Role, _ audit.Act, h http.Handler) http.Handler { return h })
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
