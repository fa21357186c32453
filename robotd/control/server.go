package control

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"sheaf/internal/metrics"
	"sheaf/internal/settings"
	"sheaf/robotd/config"
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
