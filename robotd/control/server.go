package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"sheaf/internal/metrics"
	"sheaf/internal/settings"
	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/polite"
)

// socket is the name of the local socket in the data folder.
const socket = "robotd.sock"

// Paths of the local socket. Metrics and health are on Server.Metrics too.
const (
	pathStatus = "/status" // ?hosts=N, -1 for all
	pathPause  = "/pause"
	pathResume = "/resume"
	pathHealth = "/healthz"
)

// Server answers robotd's commands, and requests for metrics and health, for a daemon.
type Server struct {
	Dir       string                          // the data folder
	Metrics   string                          // loopback address for metrics and health; empty: none
	Status    func(hosts int) (Status, error) // hosts is how many to describe; negative: all
	SetPaused func(on bool) error
	Log       *slog.Logger
}

// Start answers until the returned function is called. If the folder can have no socket, as on some
// network disks, only the commands are missing.
func (s *Server) Start() (stop func(), err error) {
	watch := http.NewServeMux()
	watch.Handle("GET "+metrics.Path, s.metrics())
	watch.HandleFunc("GET "+pathHealth, s.health)
	commands := http.NewServeMux()
	commands.Handle("GET "+metrics.Path, watch)
	commands.Handle("GET "+pathHealth, watch)
	commands.HandleFunc("GET "+pathStatus, s.showStatus)
	commands.HandleFunc("POST "+pathPause, func(w http.ResponseWriter, _ *http.Request) { s.setPaused(w, true) })
	commands.HandleFunc("POST "+pathResume, func(w http.ResponseWriter, _ *http.Request) { s.setPaused(w, false) })

	var servers []*http.Server
	serve := func(l net.Listener, h http.Handler) {
		server := &http.Server{
			Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
			ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
		}
		servers = append(servers, server)
		go func() {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				s.Log.Error("no longer reachable by robotd's commands", "address", l.Addr(), "err", err)
			}
		}()
	}
	if s.Metrics != "" {
		l, err := net.Listen("tcp", s.Metrics)
		if err != nil {
			return nil, settings.Wrong("metrics", s.Metrics, err.Error())
		}
		serve(l, watch)
	}
	if l, err := config.ListenSocket(filepath.Join(s.Dir, socket)); err != nil {
		s.Log.Warn("robotd status shows no live figures, and pause needs a restart", "err", err)
	} else {
		serve(l, commands)
	}
	return func() {
		for _, server := range servers {
			_ = server.Close() // clients that still wait do not matter now
		}
	}, nil
}

func (s *Server) showStatus(w http.ResponseWriter, req *http.Request) {
	hosts, err := strconv.Atoi(req.FormValue("hosts"))
	if err != nil && req.FormValue("hosts") != "" {
		http.Error(w, "hosts is not a number", http.StatusBadRequest)
		return
	}
	st, err := s.Status(hosts)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, http.StatusOK, st)
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the client is gone
}

// setPaused begins or ends the pause. Status 200 says that the change is on the disk and, for a
// pause, that no visit begins any more.
func (s *Server) setPaused(w http.ResponseWriter, on bool) {
	if err := s.SetPaused(on); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// health answers 200 while the daemon makes progress or has nothing to do. If something waits and
// nothing moves, it answers 503 with the reasons.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	st, err := s.Status(0)
	if err != nil {
		st.Troubles = append(st.Troubles, err.Error())
	}
	code := http.StatusOK
	if len(st.Troubles) > 0 {
		code = http.StatusServiceUnavailable
	}
	answer(w, code, map[string]any{
		"ok": len(st.Troubles) == 0, "troubles": st.Troubles, "warnings": st.Warnings,
		"paused": !st.Paused.IsZero(), "open": st.Open, "pages_per_minute": st.Pages.PerMinute,
	})
}

// Monitor is the client of a Server. It finds the daemon by the robot's data folder.
type Monitor struct {
	dir    string
	client *http.Client
}

// NewMonitor returns a monitor of the robot with the given data folder.
func NewMonitor(dir string) *Monitor {
	m := &Monitor{dir: dir}
	m.client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return config.DialSocket(ctx, m.path(socket))
		},
	}}
	return m
}

// Status returns the robot's state and whether its daemon runs. hosts is how many hosts to
// describe; negative: all. If the daemon does not answer, the state is the last that it saved.
func (m *Monitor) Status(ctx context.Context, hosts int) (s Status, running bool, err error) {
	resp, err := m.do(ctx, http.MethodGet, fmt.Sprintf("%s?hosts=%d", pathStatus, hosts))
	if err == nil {
		defer resp.Body.Close()
		return s, true, json.NewDecoder(resp.Body).Decode(&s)
	}
	if ctx.Err() != nil {
		return s, false, ctx.Err()
	}
	if s, err = savedStatus(m.dir); err != nil {
		return s, false, err
	}
	running, err = m.running()
	return s, running, err
}

// SetPaused begins or ends the pause. It reports whether a daemon runs. If none does, the change
// holds for the next daemon.
func (m *Monitor) SetPaused(ctx context.Context, on bool) (running bool, err error) {
	path := map[bool]string{true: pathPause, false: pathResume}[on]
	resp, err := m.do(ctx, http.MethodPost, path)
	if err == nil {
		return true, resp.Body.Close()
	}
	if _, missing := os.Stat(m.path(client.File)); missing != nil {
		return false, fmt.Errorf("%s is no robot's folder: %w", m.dir, missing)
	}
	lock, locked := config.Lock(m.dir)
	if locked != nil {
		return true, fmt.Errorf("the daemon in %s does not answer: %w", m.dir, err)
	}
	defer lock.Close()
	pause, err := polite.SitePause(m.dir)
	if err != nil {
		return false, err
	}
	_, err = pause.Set(on)
	return false, err
}

func (m *Monitor) do(ctx context.Context, method, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://robotd"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("robotd answers %s", resp.Status)
	}
	return resp, nil
}

func (m *Monitor) path(name string) string { return filepath.Join(m.dir, name) }

// running reports whether a daemon has locked the folder.
func (m *Monitor) running() (bool, error) {
	lock, err := config.Lock(m.dir)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, lock.Close()
}

// statusFile has the last known status, for when the robot does not run.
const statusFile = "status.json"

// SaveStatus writes the status for when the robot does not run.
func SaveStatus(dir string, s *Status) error {
	return config.NoteJSON(filepath.Join(dir, statusFile), s)
}

func savedStatus(dir string) (s Status, err error) {
	path := filepath.Join(dir, statusFile)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return s, fmt.Errorf("no robot has run in %s yet", dir)
	}
	return s, config.LoadJSON(path, &s)
}
