package problem_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

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
