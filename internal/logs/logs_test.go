package logs_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sheaf/internal/logs"
	"sheaf/internal/peer"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// A proxy's ID is kept, anybody else's and a bad one is replaced, and the answer says which it is.
func TestWhoseIDIsBelieved(t *testing.T) {
	t.Parallel()
	proxies, err := peer.ParseProxies([]string{"192.0.2.1"})
	testkit.Must(t, err)
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	for name, c := range map[string]struct {
		remote string
		header http.Header
		want   string // empty: one that is made
	}{
		"from a proxy":        {"192.0.2.1:5", http.Header{"X-Request-Id": {"abc-1.2:3"}}, "abc-1.2:3"},
		"a trace":             {"192.0.2.1:5", http.Header{"Traceparent": {"00-" + trace + "-00f067aa0ba902b7-01"}}, trace},
		"both":                {"192.0.2.1:5", http.Header{"X-Request-Id": {"abc"}, "Traceparent": {"00-" + trace + "-00f067aa0ba902b7-01"}}, "abc"},
		"a later version":     {"192.0.2.1:5", http.Header{"Traceparent": {"cc-" + trace + "-00f067aa0ba902b7-01-more"}}, trace},
		"a client's own":      {"192.0.2.9:5", http.Header{"X-Request-Id": {"abc"}}, ""},
		"a client's trace":    {"192.0.2.9:5", http.Header{"Traceparent": {"00-" + trace + "-00f067aa0ba902b7-01"}}, ""},
		"nothing":             {"192.0.2.1:5", nil, ""},
		"empty":               {"192.0.2.1:5", http.Header{"X-Request-Id": {""}}, ""},
		"long":                {"192.0.2.1:5", http.Header{"X-Request-Id": {strings.Repeat("a", 129)}}, ""},
		"a line break":        {"192.0.2.1:5", http.Header{"X-Request-Id": {"a\nlevel=ERROR"}}, ""},
		"a control character": {"192.0.2.1:5", http.Header{"X-Request-Id": {"a\x1b[2J"}}, ""},
		"no ASCII":            {"192.0.2.1:5", http.Header{"X-Request-Id": {"東"}}, ""},
		"two":                 {"192.0.2.1:5", http.Header{"X-Request-Id": {"a", "b"}}, ""},
		"an empty trace":      {"192.0.2.1:5", http.Header{"Traceparent": {"00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01"}}, ""},
		"a forbidden version": {"192.0.2.1:5", http.Header{"Traceparent": {"ff-" + trace + "-00f067aa0ba902b7-01"}}, ""},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.remote
		r.Header = c.header
		var seen string
		w := httptest.NewRecorder()
		proxies.Handler(logs.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			seen = peer.Request(r.Context())
		}))).ServeHTTP(w, r)
		answered := w.Header().Get(wire.HeaderRequest)
		if made := len(seen) == len(peer.NewID()) && seen != c.header.Get(wire.HeaderRequest); seen != answered || c.want != "" && seen != c.want || c.want == "" && !made {
			t.Errorf("%s: the ID is %q in the service and %q in the answer, want %q", name, seen, answered, c.want)
		}
	}
}

// Lines have the request's ID, once, also from loggers with keys of their own, in both formats.
func TestLines(t *testing.T) {
	t.Parallel()
	ctx := peer.WithRequest(t.Context(), "r1")
	var out strings.Builder
	log := logs.Settings{Format: "json", Level: "warn"}.New(&out)
	log.With("robot", "sv1").WarnContext(ctx, "text", "host", "a.jp")
	log.InfoContext(ctx, "too unimportant")
	var line struct{ Msg, Robot, Host, Request string }
	testkit.Must(t, json.Unmarshal([]byte(out.String()), &line))
	if line.Msg != "text" || line.Robot != "sv1" || line.Host != "a.jp" || line.Request != "r1" || strings.Count(out.String(), "request") != 1 {
		t.Errorf("the line is %s", out.String())
	}
	out.Reset()
	log = logs.Settings{Format: "text", Level: "info"}.New(&out)
	log.LogAttrs(ctx, slog.LevelInfo, "text")
	log.Info("no request")
	if lines := strings.Split(out.String(), "\n"); len(lines) != 3 || !strings.HasSuffix(lines[0], "msg=text request=r1") || !strings.HasSuffix(lines[1], `msg="no request"`) {
		t.Errorf("the lines are %q", lines)
	}
}
