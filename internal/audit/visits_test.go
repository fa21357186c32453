package audit

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
)

func TestMain(m *testing.M) { testkit.InMemory(m) }

// What visitors try in vain leaves few rows, however often and wherever they try it. The rows count
// all of it.
func TestVisitsAreSummedUp(t *testing.T) {
	const tries = 500
	for name, c := range map[string]struct {
		most int // rows, if a minute ends meanwhile
		path func(n int) string
	}{
		"the same again and again": {2, func(int) string { return "/v1/removals" }},
		"another path each time":   {visitsOfNetwork + 2, func(n int) string { return fmt.Sprint("/v1/", n) }},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := db.Open(t.Context(), dbtest.Source(t))
			testkit.Must(t, err)
			defer d.Close()
			log := New(Options{DB: d, Slower: testkit.Slower})
			h := log.Handler(None, http.NotFoundHandler())
			for n := range tries {
				r := httptest.NewRequest(http.MethodPost, c.path(n), nil)
				r.RemoteAddr = fmt.Sprintf("192.0.2.1:%d", 1000+n)
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
			page, err := log.Page(t.Context(), Filter{Limit: 10_000})
			testkit.Must(t, err)
			count := int64(0)
			for _, r := range page.Rows {
				count += r.Count
				if r.Kind != Visitor || r.Outcome != Failed || r.Address != "192.0.2.1" {
					t.Fatalf("%+v", r)
				}
			}
			if len(page.Rows) > c.most || count != tries {
				t.Errorf("%d rows for %d tries, want at most %d for all %d", len(page.Rows), count, c.most, tries)
			}
		})
	}
}

// What visitors of all networks together try in an hour leaves a bounded number of rows.
func TestVisitsOfAllNetworks(t *testing.T) {
	log, rows := New(Options{}), 0
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for n := range 10 * visitsOfAll {
		r := Row{
			At: at.Add(time.Duration(n) * time.Hour / (10 * visitsOfAll)), Kind: Visitor, Act: Add, Outcome: Failed,
			Address: fmt.Sprintf("[2001:db8:%x::1]:7", n), Object: fmt.Sprint("/v1/", n), Name: fmt.Sprint(n),
		}
		k, id := log.findVisit(&r)
		if id == 0 {
			log.visits[k] = 1
			rows++
		}
	}
	if rows > visitsOfAll+60 { // and one in each minute
		t.Errorf("%d rows in an hour", rows)
	}
}
