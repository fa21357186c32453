package whole

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/manager"
	"sheaf/robotd"
	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/test/servicetest"
)

// rotation is a service whose key is rotated while robots work.
type rotation struct {
	*servicetest.Service
	t *testing.T
}

// keys returns what operators see. behind are the robots that do not know the newest key.
func (r *rotation) keys() (signs string, behind map[string]string) {
	r.t.Helper()
	var list service.KeyList
	r.Operate(http.MethodGet, api.PathAdminKeys, nil, &list)
	behind = make(map[string]string)
	for _, robot := range list.Robots {
		behind[robot.Robot] = robot.Why
	}
	for _, k := range list.Keys {
		if k.State == "signs" {
			signs = k.ID
		}
	}
	return signs, behind
}

// published waits until a robot has a receipt by which another of its batches is published.
func (r *rotation) published(what string, robot config.Config) {
	r.t.Helper()
	count := func() int {
		receipts, err := filepath.Glob(filepath.Join(robot.DataDir, "receipts", "*.json"))
		testkit.Must(r.t, err)
		return len(receipts)
	}
	was := count()
	testkit.Until(r.t, what, func() bool { return count() > was+1 }) // one more may have been signed before
}

// changing is a site whose page is another one at each visit.
func changing(t *testing.T, ip string) (at string) {
	t.Helper()
	l, err := net.Listen("tcp", ip+":0")
	testkit.Must(t, err)
	var n atomic.Int64
	site := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, "<p>visit %d", n.Add(1))
	})}}
	site.Start()
	t.Cleanup(site.Close)
	return l.Addr().String()
}

// The service's key is rotated twice while a robot collects and uploads: none of its receipts is
// refused, and no process is restarted. A robot that was away meanwhile follows when it comes back.
// After a theft no robot follows, none loses a batch, and each goes on when it is joined again.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	testkit.Slow(t)
	settings := servicetest.Quiet()
	settings["publish.window"] = "always"
	s := &rotation{servicetest.Start(t, settings), t}
	web := make(map[string]string) // several addresses, so that each robot is given one
	var sites manager.HostsRequest
	for n := range 4 {
		host := fmt.Sprintf("h%d.test", n)
		web[host] = changing(t, fmt.Sprintf("127.71.9.%d", n+1))
		sites.Hosts = append(sites.Hosts, "http://"+host+"/")
	}
	busy, away := s.Join("busy", web), s.Join("away", web)
	for _, cfg := range []*config.Config{&busy, &away} {
		cfg.Interval, cfg.Cycle, cfg.Poll, cfg.Heartbeat = time.Millisecond, 100*time.Millisecond, time.Second, 100*time.Millisecond
	}
	run := func(cfg config.Config, log *slog.Logger) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- robotd.Run(ctx, cfg, log) }()
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("robot: %v", err)
			}
		}
	}
	var refused refusals
	defer run(busy, slog.New(&refused))()
	stop := run(away, slog.New(slog.DiscardHandler))
	testkit.Until(t, "both robots take part", func() bool {
		var list manager.RobotsResponse
		s.Operate(http.MethodGet, api.PathAdminRobots, nil, &list)
		return list.Robots[0].Subscribed && list.Robots[1].Subscribed
	})
	s.Operate(http.MethodPost, api.PathAdminHosts, sites, nil)
	s.published("the first key", busy)
	s.published("the first key", away)
	stop()

	for n := 2; n <= 3; n++ {
		before, _ := s.keys()
		s.Operate(http.MethodPost, api.PathAdminKeys+"/rotate", service.KeyRotation{}, nil)
		s.published("the next key is made", busy)
		testkit.Until(t, "the robot knows the next key", func() bool { _, behind := s.keys(); return behind["busy"] == "" })
		err := s.Do(t.Context(), http.MethodPost, api.PathAdminKeys+"/use", service.KeyUse{}, nil)
		if err == nil || !strings.Contains(err.Error(), "robots_behind") && !strings.Contains(err.Error(), "away") {
			t.Errorf("used although a robot does not know it: %v", err)
		}
		s.Operate(http.MethodPost, api.PathAdminKeys+"/use", service.KeyUse{Leave: true}, nil)
		s.published("the next key signs", busy)
		if now, behind := s.keys(); now == before || len(behind) != 1 || !strings.Contains(behind["away"], fmt.Sprintf("key 1 of %d", n)) {
			t.Errorf("key %s signs, was %s; behind: %v", now, before, behind)
		}
	}
	if n := refused.Load(); n > 0 {
		t.Errorf("the robot refused %d signatures", n)
	}
	stop = run(away, slog.New(slog.DiscardHandler))
	s.published("the robot that was away", away)
	testkit.Until(t, "both robots know the newest key", func() bool { _, behind := s.keys(); return len(behind) == 0 })
	stop()
	signs, _ := s.keys()
	for _, cfg := range []config.Config{busy, away} {
		testkit.Until(t, "the robot hears that the newest key signs", func() bool {
			id, err := client.LoadIdentity(cfg.DataDir)
			testkit.Must(t, err)
			return hex.EncodeToString(id.ServerKey) == signs && id.KeyNumber == 3
		})
	}
	s.stolen(&refused, away, run)
}

// stolen replaces the key as stolen, and joins a robot again.
func (r *rotation) stolen(refused *refusals, cfg config.Config, run func(config.Config, *slog.Logger) func()) {
	r.t.Helper()
	r.Operate(http.MethodPost, api.PathAdminKeys+"/rotate", service.KeyRotation{Compromised: true}, nil)
	if _, behind := r.keys(); len(behind) != 2 || !strings.Contains(behind["busy"], "join it again") {
		r.t.Errorf("behind after a theft: %v", behind)
	}
	testkit.Until(r.t, "the robot refuses the receipts of a key that it cannot follow", func() bool { return refused.Load() > 0 })

	var admitted manager.AdmitResponse
	r.Operate(http.MethodDelete, api.PathAdminRobots+"/away", nil, nil)
	r.Operate(http.MethodPost, api.PathAdminRobots, manager.AdmitRequest{Name: "away"}, &admitted)
	testkit.Must(r.t, os.Remove(filepath.Join(cfg.DataDir, client.File)))
	_, err := robotd.Join(r.t.Context(), r.At.HTTP, admitted.Token, cfg.DataDir)
	testkit.Must(r.t, err)
	defer run(cfg, slog.New(slog.DiscardHandler))()
	r.published("a robot that was joined again", cfg)
	if _, behind := r.keys(); len(behind) != 1 || behind["busy"] == "" {
		r.t.Errorf("behind after one was joined again: %v", behind)
	}
}

// refusals counts what a robot logs of signatures that it refuses.
type refusals struct {
	slog.TextHandler
	atomic.Int64
}

func (r *refusals) Enabled(context.Context, slog.Level) bool { return true }
func (r *refusals) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *refusals) WithGroup(string) slog.Handler            { return r }

func (r *refusals) Handle(_ context.Context, rec slog.Record) error {
	rec.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok && strings.Contains(errors.Join(err).Error(), "has to be joined again") {
			r.Add(1)
		}
		return true
	})
	return nil
}
