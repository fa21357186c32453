package robotd

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"sheaf/internal/botauth"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/robotd/client"
)

// A check looks whether sites can verify the robot's signatures, and says what to do where they
// cannot.
func TestCheckOfSignatures(t *testing.T) {
	t.Parallel()
	s := newService(t, "http://www.a.test/")
	cfg := testConfig(t, s, map[string]string{"www.a.test": "127.0.0.1"})
	id, err := client.LoadIdentity(cfg.DataDir)
	testkit.Must(t, err)
	var listed bool
	directory := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != botauth.PathDirectory {
			http.NotFound(w, r)
			return
		}
		var keys []wire.SigningKey
		signer, err := botauth.New("http://"+r.Host, id.Key)
		if listed && err == nil {
			keys = signer.Proofs(time.Now())
		}
		botauth.WriteDirectory(w, keys)
	}))
	defer directory.Close()
	for _, c := range []struct {
		name, sign string
		listed     bool
		behind     time.Duration
		want       string // "": good
	}{
		{"listed", directory.URL, true, 0, ""},
		{"not listed", directory.URL, false, 0, "it comes there with a heartbeat"},
		{"no directory", s.URL, true, 0, "404 Not Found: no directory of keys: sites cannot verify"},
		{"out of reach", "http://127.0.0.1:1", true, 0, "connection refused: sites cannot verify"},
		{"not an address", "archive", true, 0, `settings: identity.sign: "archive"`},
		{"a clock off by hours", directory.URL, true, 3 * time.Hour, "set the clock (NTP)"},
	} {
		cfg := cfg
		cfg.Identity.Sign, listed = c.sign, c.listed
		s.mu.Lock()
		s.behind = c.behind
		s.mu.Unlock()
		var good bool
		var wrong []string
		Check(t.Context(), cfg, func(f Finding) {
			if f.What == "signatures" && f.OK {
				good = true
			} else if f.What == "signatures" {
				wrong = append(wrong, f.Text)
			}
		})
		if all := strings.Join(wrong, "\n"); (c.want == "") != (all == "") || !strings.Contains(all, c.want) || c.want == "" && !good {
			t.Errorf("%s: good %t, wrong %q, want %q", c.name, good, all, c.want)
		}
	}
}

// A robot whose clock is off by hours says so when it starts, and signs by the manager's clock.
func TestSignaturesOfARobotWithAWrongClock(t *testing.T) {
	t.Parallel()
	var input string
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			input = r.Header.Get("Signature-Input")
		}
		fmt.Fprint(w, "User-agent: *\nAllow: /\n")
	}))
	defer site.Close()
	s := newService(t, "http://www.a.test/")
	s.behind = 3 * time.Hour
	cfg := testConfig(t, s, map[string]string{"www.a.test": strings.TrimPrefix(site.URL, "http://")})
	cfg.Identity.Sign, cfg.Heartbeat = "https://archive.example.jp", time.Millisecond
	var log bytes.Buffer
	r, err := New(cfg, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	testkit.Must(t, err)
	began := time.Now()
	testkit.Must(t, r.Cycle(t.Context()))
	ended := time.Now()
	testkit.Must(t, r.Close())
	if n := strings.Count(log.String(), "clock differs from the manager's"); n != 1 || !strings.Contains(log.String(), "ahead=3h0m0s") {
		t.Errorf("%d lines: %s", n, log.String())
	}
	created := regexp.MustCompile(`created=(\d+)`).FindStringSubmatch(input)
	if created == nil {
		t.Fatal("the page was asked for without a signature")
	}
	at, err := strconv.ParseInt(created[1], 10, 64)
	testkit.Must(t, err)
	managers := time.Unix(at, 0).Add(s.behind)
	if managers.Before(began.Add(-15*time.Second)) || managers.After(ended) {
		t.Errorf("signed as at %v, by the manager's clock between %v and %v", managers, began, ended)
	}
}
