package httpd_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/httpd"
	"sheaf/serve/httpd/web"
	"sheaf/serve/servetest"
	"sheaf/test/operatorstest"
)

// named returns a service with a page for everybody. It answers requests for any host name.
func named(t *testing.T, opt httpd.Options) http.Handler {
	t.Helper()
	s := servetest.New(t, &account.Account{Name: account.Anonymous, Domains: []string{"jp"}})
	s.Publish("20261122", map[string][]*archive.Record{host: {servetest.Page(page, "<p>Monday</p>", at(22, 1))}})
	router := mux.NewRouter()
	opt.Library, opt.Accounts, opt.Recorder = s.Library, s.Accounts, s.Log
	opt.Gate = operatorstest.Open
	testkit.Must(t, httpd.Register(router, opt))
	return web.Only(opt.ReplayOrigin, router)
}

// askAs sends a request with a host name.
func askAs(t *testing.T, url, name, path string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest("GET", url+path, nil)
	testkit.Must(t, err)
	req.Host = name
	resp, err := http.DefaultClient.Transport.RoundTrip(req)
	testkit.Must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	return resp, string(body)
}

// A host name that a client invents is in no redirect and in no link.
func TestHostHeaderIsNotBelieved(t *testing.T) {
	t.Parallel()
	for public, want := range map[string]string{"": "", "https://archive.example.jp/": "https://archive.example.jp"} {
		server := httptest.NewServer(named(t, httpd.Options{Public: public}))
		defer server.Close()
		for _, path := range []string{"/web/2026/" + page, "/timegate/" + page, "/timemap/link/" + page, "/timemap/json/" + page,
			"/web/*/" + page, "/diff/2026/2026/" + page, "/diff?from=2026&to=2026&url=" + page, "/pub", "/pub/jp", "/web/20261122010000/" + page} {
			resp, body := askAs(t, server.URL, "evil.example", path)
			if text := resp.Header.Get("Location") + resp.Header.Get("Link") + body; strings.Contains(text, "evil.example") {
				t.Errorf("public %q, %s: %s", public, path, text)
			}
			if to := resp.Header.Get("Location"); strings.HasPrefix(path, "/web/2026/") && to != want+ofDay(22, "", page) {
				t.Errorf("public %q: %s leads to %s", public, path, to)
			}
		}
		// The client may use the address to which it has connected.
		local := strings.TrimPrefix(server.URL, "http://")
		for _, name := range []string{local, strings.Replace(local, "127.0.0.1", "localhost", 1)} {
			origin := want
			if public == "" {
				origin = "http://" + name
			}
			if resp, _ := askAs(t, server.URL, name, "/timegate/"+page); resp.Header.Get("Location") != origin+ofDay(22, "", page) {
				t.Errorf("public %q, asked as %s: %s", public, name, resp.Header.Get("Location"))
			}
		}
	}
}

// The headers of all HTML of the tree forbid scripts and guessing of types.
func TestListingsAreGuarded(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(named(t, httpd.Options{}))
	defer server.Close()
	for _, path := range []string{"/pub", "/pub/", "/pub/jp", "/pub/jp/", "/pub/editions/", "/pub/jp/ac/waseda/www/", "/web/*/" + page, "/diff/20261122010000/20261122010000/" + page} {
		resp, _ := askAs(t, server.URL, "", path)
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %s", path, resp.Header.Get("Content-Type"))
		}
		if !strings.Contains(resp.Header.Get("Content-Security-Policy"), "default-src 'none'") || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, resp.Header)
		}
	}
}

// Stored scripts run only at an origin of their own, which has nothing but what they need.
func TestReplayHasItsOwnOrigin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"ui.js", "sw.js"} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte("//"), 0o600))
	}
	var log bytes.Buffer
	without := httptest.NewServer(named(t, httpd.Options{Replay: dir, Log: slog.New(slog.NewTextHandler(&log, nil))}))
	defer without.Close()
	if !strings.Contains(log.String(), "replay.origin") {
		t.Errorf("the start says nothing of replay.origin: %s", log.String())
	}
	for _, path := range []string{"/replay/", "/replay/ui.js", "/replay/sw.js"} {
		if resp, body := askAs(t, without.URL, "archive.example.jp", path); resp.StatusCode != 404 || !strings.Contains(body, "replay.origin") {
			t.Errorf("%s without an origin: %s %s", path, resp.Status, body)
		}
	}
	server := httptest.NewServer(named(t, httpd.Options{Replay: dir, ReplayOrigin: "https://replay.example.jp/"}))
	defer server.Close()
	for _, c := range []struct {
		name, path string
		status     int
	}{
		{"replay.example.jp", "/replay/", 200}, {"REPLAY.example.jp:443", "/replay/sw.js", 200}, {"replay.example.jp", "/a/" + host + ".wacz", 200},
		{"replay.example.jp", "/pub/", 404}, {"replay.example.jp", "/web/2026/" + page, 404}, {"replay.example.jp", "/v1/hosts", 404},
		{"replay.example.jp", "/replay/../v1/hosts", 404},
		{"archive.example.jp", "/replay/", 404}, {"archive.example.jp", "/replay/ui.js", 404}, {"archive.example.jp", "/pub/", 200},
	} {
		if resp, body := askAs(t, server.URL, c.name, c.path); resp.StatusCode != c.status {
			t.Errorf("%s at %s: %s %.200s, want %d", c.path, c.name, resp.Status, body, c.status)
		}
	}
	if resp, body := askAs(t, server.URL, "archive.example.jp", "/web/*/"+page); !strings.Contains(body, "https://replay.example.jp/replay/?source=") {
		t.Errorf("the list of versions does not lead there: %s", resp.Status)
	}
}
