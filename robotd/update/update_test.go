package update_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/robotd/update"
)

// site is a service with one program, and a robot's folder.
type site struct {
	t       *testing.T
	dir     string
	key     minisign.PrivateKey
	program string
	url     string
}

func newSite(t *testing.T, program string) *site {
	t.Helper()
	_, key, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, dir: t.TempDir(), key: key, program: program}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(s.program))
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *site) updater(counter int64) *update.Updater {
	return &update.Updater{Dir: s.dir, Key: s.key.Public().(minisign.PublicKey), Base: s.url, Client: http.DefaultClient, Parent: update.Parent{Counter: counter}}
}

// offer signs a release of the program.
func (s *site) offer(key minisign.PrivateKey, counter int64, expires time.Time) wire.Offer {
	s.t.Helper()
	sum := sha256.Sum256([]byte(s.program))
	r := wire.Release{Counter: counter, Version: "1", Expires: expires.UTC().Truncate(time.Second), Files: []wire.ReleaseFile{
		{Platform: update.Platform, Size: int64(len(s.program)), SHA256: hex.EncodeToString(sum[:])}}}
	text, err := r.Format()
	if err != nil {
		s.t.Fatal(err)
	}
	return wire.Offer{Release: string(text), Signature: string(minisign.Sign(key, text))}
}

// stage accepts a release of the program, which then waits for its trial.
func (s *site) stage(counter int64) {
	s.t.Helper()
	if err := s.updater(0).Take(s.t.Context(), s.offer(s.key, counter, time.Now().AddDate(0, 1, 0))); !errors.Is(err, update.ErrStaged) {
		s.t.Fatalf("taking release %d: %v", counter, err)
	}
}

func TestTakeRefuses(t *testing.T) {
	s := newSite(t, "program")
	_, other, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	soon := time.Now().AddDate(0, 1, 0)
	s.stage(7)
	for name, c := range map[string]struct {
		offer wire.Offer
		want  error
	}{
		"another's key":            {s.offer(other, 8, soon), wire.ErrReleaseSignature},
		"expired":                  {s.offer(s.key, 8, time.Now().Add(-time.Hour)), wire.ErrExpired},
		"older":                    {s.offer(s.key, 6, soon), update.ErrReplayed},
		"another of the same name": {s.offer(s.key, 7, soon.AddDate(0, 1, 0)), update.ErrTwoFaced},
	} {
		if err := s.updater(0).Take(t.Context(), c.offer); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	changed := s.offer(s.key, 8, soon)
	s.program = "PROGRAM"
	if err := s.updater(0).Take(t.Context(), changed); err == nil || errors.Is(err, update.ErrStaged) {
		t.Errorf("a program that is not the one signed: %v", err)
	}
	s.program = "program"
	if err := s.updater(0).Take(t.Context(), changed); !errors.Is(err, update.ErrStaged) {
		t.Errorf("the right one afterwards: %v", err)
	}
}

// TestFetchGoesOnThroughProxy: a partial file is continued, and fetching uses the proxy.
func TestFetchGoesOnThroughProxy(t *testing.T) {
	s := newSite(t, strings.Repeat("0123456789", 1000))
	if err := os.WriteFile(filepath.Join(s.dir, "robotd-7.part"), []byte(s.program[:4000]), 0o755); err != nil {
		t.Fatal(err)
	}
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String()+" "+r.Header.Get("Range"))
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(s.program))
	}))
	defer proxy.Close()
	via, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	u := s.updater(0)
	u.Base, u.Client = "http://sheaf.invalid", &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(via)}}
	if err := u.Take(t.Context(), s.offer(s.key, 7, time.Now().AddDate(0, 1, 0))); !errors.Is(err, update.ErrStaged) {
		t.Fatal(err)
	}
	want := fmt.Sprintf("http://sheaf.invalid/releases/7/robotd-%s bytes=4000-", update.Platform)
	if len(asked) != 1 || asked[0] != want {
		t.Errorf("the proxy was asked for %q, want %q", asked, want)
	}
	if got, err := os.ReadFile(filepath.Join(s.dir, "robotd-7")); err != nil || string(got) != s.program {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// remembered returns the content of the state file.
func (s *site) remembered() (got struct {
	Current struct{ Counter int64 }
	Trial   *struct{ Starts int }
	Failed  []struct {
		Counter int64
		Why     string
	}
}) {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, "state.json"))
	if err == nil {
		err = json.Unmarshal(data, &got)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

// The programs are shell scripts, since only the behaviour of their processes matters. Each writes
// its name when it starts; the old one then keeps running.
const (
	good    = "#!/bin/sh\necho new >>\"$1\"\necho REPORTED >&3\nexec sleep 1000\n"
	old     = "#!/bin/sh\necho old >>\"$1\"\nexec sleep 1000\n"
	exits   = "#!/bin/sh\necho new >>\"$1\"\nexit 3\n"
	hangs   = "#!/bin/sh\necho new >>\"$1\"\ntrap '' TERM\nwhile :; do sleep 1; done\n"
	garbage = "\x7fELF this is no program"
)

func TestSupervisor(t *testing.T) {
	testkit.Slow(t)
	for name, c := range map[string]struct {
		program string
		trial   time.Duration
		started string // programs in the order of their starts
		current int64
		why     string
	}{
		"works":              {good, time.Hour, "new\n", 8, ""},
		"exits":              {exits, time.Hour, "new\nnew\nnew\nold\n", 0, "ended 3 times"},
		"hangs, or is alone": {hangs, 1500 * time.Millisecond, "new\nold\n", 0, "did not report in"},
		"is no program":      {garbage, time.Hour, "old\n", 0, "ended 3 times"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, c.program)
			s.stage(8)
			installed, trace := filepath.Join(t.TempDir(), "robotd"), filepath.Join(t.TempDir(), "trace")
			if err := os.WriteFile(installed, []byte(old), 0o755); err != nil {
				t.Fatal(err)
			}
			v := update.Supervisor{Dir: s.dir, Installed: installed, Args: []string{trace}, Trial: c.trial,
				Pause: time.Millisecond, Stop: 100 * time.Millisecond, Log: slog.New(slog.DiscardHandler)}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- v.Run(ctx) }()
			testkit.Eventually(t, "the programs' starts", func() error {
				text, _ := os.ReadFile(trace) // there is none before the first
				if string(text) != c.started || s.remembered().Trial != nil {
					return fmt.Errorf("started %q, want %q", text, c.started)
				}
				return nil
			})
			cancel()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			got := s.remembered()
			if got.Current.Counter != c.current {
				t.Errorf("release %d is at work, want %d", got.Current.Counter, c.current)
			}
			if c.why != "" && (len(got.Failed) != 1 || got.Failed[0].Counter != 8 || !strings.Contains(got.Failed[0].Why, c.why)) {
				t.Errorf("remembered as put back: %+v, want release 8, %q", got.Failed, c.why)
			}
			err := s.updater(0).Take(t.Context(), s.offer(s.key, 9, time.Now().AddDate(0, 1, 0)))
			if !errors.Is(err, update.ErrStaged) {
				t.Errorf("the next release: %v", err)
			}
		})
	}
}
