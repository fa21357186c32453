package problem_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"sheaf/internal/problem"
	"sheaf/internal/wire"
)

func read(t *testing.T, rec *httptest.ResponseRecorder) wire.Problem {
	t.Helper()
	if ct := rec.Header().Get("Content-Type"); ct != "application/problem+json" {
		t.Fatalf("content type %q", ct)
	}
	var p wire.Problem
	if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	if p.Status != rec.Code {
		t.Fatalf("body says %d, status line %d", p.Status, rec.Code)
	}
	return p
}

func TestWrite(t *testing.T) {
	rec := httptest.NewRecorder()
	rec.Header().Set("ETag", `"x"`)
	problem.Write(rec, wire.Problem{Status: 503, Reason: "window_closed", Next: "2026-11-22T02:00:00+09:00"})
	p := read(t, rec)
	if p.Title != "Service Unavailable" || p.Reason != "window_closed" {
		t.Errorf("got %+v", p)
	}
	if got := rec.Header().Get("Retry-After"); got != "Sat, 21 Nov 2026 17:00:00 GMT" {
		t.Errorf("Retry-After %q", got)
	}
	if rec.Header().Get("ETag") != "" {
		t.Error("the ETag of another answer was kept")
	}
}

func TestHandler(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		reason string
	}{
		"own":       {fmt.Errorf("wrapped: %w", problem.New(409, "taken", "somebody has it")), 409, "taken"},
		"too large": {&http.MaxBytesError{Limit: 3}, 413, "too_large"},
		"other":     {errors.New("disk on fire at /secret"), 500, "internal"},
	} {
		t.Run(name, func(t *testing.T) {
			h := problem.Handler(slog.New(slog.NewTextHandler(io.Discard, nil)), func(http.ResponseWriter, *http.Request) error { return c.err })
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, httptest.NewRequest("GET", "/x", nil))
			if p := read(t, rec); p.Status != c.status || p.Reason != c.reason {
				t.Errorf("got %+v", p)
			}
		})
	}
}

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

// A client that hangs up, while it sends or while it waits, is no ERROR in the log; a failure is.
func TestHangUpIsNoError(t *testing.T) {
	t.Parallel()
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	for name, c := range map[string]struct {
		ctx    context.Context
		body   io.Reader
		err    error // returned where reading the body does not fail
		logged bool
	}{
		"sending":             {t.Context(), iotest.ErrReader(io.ErrUnexpectedEOF), nil, false},
		"waiting":             {gone, http.NoBody, errors.Join(errors.New("query"), context.Canceled), false},
		"failure":             {t.Context(), http.NoBody, io.ErrUnexpectedEOF, true},
		"failure, and gone":   {gone, http.NoBody, errors.New("the disk is broken"), true},
		"cancelled by itself": {t.Context(), http.NoBody, context.Canceled, true},
	} {
		var log bytes.Buffer
		h := problem.Handler(slog.New(slog.NewTextHandler(&log, nil)), func(_ http.ResponseWriter, r *http.Request) error {
			if _, err := io.ReadAll(r.Body); err != nil {
				return err
			}
			return c.err
		})
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(c.ctx, "POST", "/", c.body))
		if logged := log.Len() > 0; logged != c.logged {
			t.Errorf("%s: logged %q", name, log.String())
		}
	}
}
