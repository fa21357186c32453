package board

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/problem"
)

// A page whose database hangs ends in bounded time, and says so; so does one that fails because
// something does not work.
func TestPagesEndAndSayWhy(t *testing.T) {
	hangs := func(_ http.ResponseWriter, r *http.Request) error {
		<-r.Context().Done()
		return r.Context().Err()
	}
	fails := func(http.ResponseWriter, *http.Request) error { return errors.New("connection refused") }
	for _, c := range []struct {
		what    string
		page    func(http.ResponseWriter, *http.Request) error
		failing []Failure
		status  int
		says    string
	}{
		{"hangs", hangs, nil, 503, "the database has not answered for 5s"},
		{"fails", fails, []Failure{{What: "database", Why: "does not work"}}, 503, "database does not work"},
		{"fails by itself", fails, nil, 500, "the service failed"},
		{"refuses", func(http.ResponseWriter, *http.Request) error { return problem.New(404, "not_found", "no such robot") }, []Failure{{What: "database"}}, 404, "no such robot"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &board{Options: Options{Log: slog.New(slog.DiscardHandler), Failing: func(context.Context) []Failure { return c.failing }}}
			began, w := time.Now(), httptest.NewRecorder()
			problem.Handler(b.Log, b.bounded(c.page)).ServeHTTP(w, httptest.NewRequest("GET", "/board/", nil))
			if took := time.Since(began); w.Code != c.status || !strings.Contains(w.Body.String(), c.says) || took > patience {
				t.Errorf("%s: %d after %v: %s", c.what, w.Code, took, w.Body)
			}
		})
	}
}
