// Package servicetest runs a whole service, with robots and consumers, in one process. Nothing is
// simulated.
package servicetest

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
	"sheaf/manager"
	"sheaf/robotd"
	"sheaf/robotd/config"
	"sheaf/serve/account"
	"sheaf/serve/client"
	"sheaf/serve/servetest"
)

// Service is a running service. The client has its operator's token.
type Service struct {
	*client.Client
	Data string // its data directory
	At   service.Addresses
	T    testing.TB
}

// Start runs a service until the test ends. Its passwords are quick to hash, and its database may
// be slow. Unless settings say otherwise, it has a temporary directory and free ports, takes
// uploads however full the disk is, and does nothing because of the time of day: it publishes when
// it is told to, and makes no daily plan.
func Start(t testing.TB, settings map[string]any, options ...service.Option) *Service {
	t.Helper()
	return StartWith(t, settings, func(*service.Config) {}, options...)
}

// StartWith is Start for settings that operators cannot choose: change is called with the settings
// after they were checked.
func StartWith(t testing.TB, settings map[string]any, change func(*service.Config), options ...service.Option) *Service {
	t.Helper()
	all := map[string]any{
		"data": filepath.Join(t.TempDir(), "service"), "http.listen": "127.0.0.1:0", "metrics": "", "download.listen": "127.0.0.1:0", "drop.listen": "127.0.0.1:0", "stop": "1s",
		"publish.window": "never", "balance.at": "", "uploads.full": 100,
	}
	maps.Copy(all, settings)
	cfg, err := service.Load("", all)
	testkit.Must(t, err)
	cfg.Login.Passwords, cfg.Slower = servetest.Cheap, testkit.Slower
	change(&cfg)
	if _, err := os.Stat(cfg.Data); os.IsNotExist(err) && cfg.Database.URL == "" {
		testkit.Must(t, os.MkdirAll(cfg.Data, 0o700))
		dbtest.Place(t, filepath.Join(cfg.Data, "sheaf.db"))
	}
	s, err := service.New(t.Context(), cfg, slog.New(slog.DiscardHandler), options...)
	testkit.Must(t, err)
	Run(t, "service", s.Run)
	c, err := client.Operator(s.Addresses().HTTP, s.OperatorToken())
	testkit.Must(t, err)
	return &Service{Client: c, Data: cfg.Data, At: s.Addresses(), T: t}
}

// Quiet returns settings for Start: the service does not level robots, and polls often.
func Quiet() map[string]any {
	return map[string]any{"poll": "50ms", "balance.during": false}
}

// Run runs a daemon until the test ends.
func Run(t testing.TB, what string, f func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	})
}

// Operate sends a request as an operator, and fails the test if the request fails.
func (s *Service) Operate(method, path string, in, out any) {
	s.T.Helper()
	testkit.Must(s.T, s.Do(s.T.Context(), method, path, in, out))
}

// Consumer makes an account that sees everything, and returns its password.
func (s *Service) Consumer(name string) (password string) {
	s.T.Helper()
	made := account.NewAccount{Account: account.Account{Name: name, Domains: []string{"*"}}}
	s.Operate(http.MethodPost, api.PathAdminAccounts, made, &made)
	return made.Password
}

// Join admits a robot and lets it join. Its window is always open, it uploads soon, and web has the
// addresses of the hosts that it may visit.
func (s *Service) Join(name string, web map[string]string) config.Config {
	s.T.Helper()
	var admitted manager.AdmitResponse
	s.Operate(http.MethodPost, api.PathAdminRobots, manager.AdmitRequest{Name: name}, &admitted)
	cfg := robotd.DefaultConfig()
	cfg.DataDir, cfg.Contact = filepath.Join(s.T.TempDir(), name), "https://robots.example.ac.jp/"
	cfg.Window, cfg.Adapt.Max, cfg.Disk.Free = "always", 0, 0
	cfg.Network.Hosts, cfg.Network.AllowPrivate = web, true
	cfg.Upload.Poll = 50 * time.Millisecond
	_, err := robotd.Join(s.T.Context(), s.At.HTTP, admitted.Token, cfg.DataDir)
	testkit.Must(s.T, err)
	return cfg
}

// Robot joins a robot that does one cycle when it is told to, without waiting between pages, and
// gives it a host.
func (s *Service) Robot(name, host, at string) *robotd.Robot {
	s.T.Helper()
	return s.CollectOnce(name, time.Millisecond, map[string]string{host: at})
}

// CollectOnce is Robot for several hosts and their addresses, and with an interval.
func (s *Service) CollectOnce(name string, interval time.Duration, web map[string]string) *robotd.Robot {
	s.T.Helper()
	cfg := s.Join(name, web)
	cfg.Once, cfg.Interval = true, interval
	robot, err := robotd.New(cfg, slog.New(slog.DiscardHandler))
	testkit.Must(s.T, err)
	s.T.Cleanup(func() {
		if err := robot.Close(); err != nil {
			s.T.Error(err)
		}
	})
	testkit.Must(s.T, robot.Subscribe(s.T.Context()))
	var hosts []string
	for host := range web {
		hosts = append(hosts, "http://"+host+"/")
	}
	s.Operate(http.MethodPost, api.PathAdminHosts, manager.HostsRequest{Hosts: hosts}, nil)
	return robot
}
