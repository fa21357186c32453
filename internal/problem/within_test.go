package problem_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/problem"
)

// A page whose database hangs ends in bounded time with a 503, and so does one whose database or
// store cannot be reached. Other failures stay 500, and what a page refuses stays as it is.
func TestLateAnswers(t *testing.T) {
	hangs := func(_ http.ResponseWriter, r *http.Request) error {
		<-r.Context().Done()
		return errors.New("interrupted") // as SQLite says, whatever the reason
	}
	fails := func(err error) func(http.ResponseWriter, *http.Request) error {
		return func(http.ResponseWriter, *http.Request) error { return err }
	}
	for what, c := range map[string]struct {
		page   func(http.ResponseWriter, *http.Request) error
		status int
		says   string
	}{
		"hangs":       {hangs, 503, problem.NotAnswering},
		"unreachable": {fails(fmt.Errorf("query: %w", &net.OpError{Op: "dial", Err: errors.New("connection refused")})), 503, problem.NotAnswering},
		"timed out":   {fails(fmt.Errorf("session: %w", context.DeadlineExceeded)), 503, problem.NotAnswering},
		"broken":      {fails(errors.New("no such table")), 500, "the service failed"},
		"refused":     {fails(problem.New(404, "not_found", "no such page")), 404, "no such page"},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, w := time.Now(), httptest.NewRecorder()
			problem.Within(problem.Handler(slog.New(slog.DiscardHandler), c.page)).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			if took := time.Since(began); w.Code != c.status || !strings.Contains(w.Body.String(), c.says) || took > problem.Patience {
				t.Errorf("%s: %d after %v: %s", what, w.Code, took, w.Body)
			}
			if again := w.Header().Get("Retry-After"); (again != "") != (w.Code == 503) {
				t.Errorf("%s: come again %q", what, again)
			}
		})
	}
}
