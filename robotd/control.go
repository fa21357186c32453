package robotd

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sheaf/internal/settings"
	"sheaf/robotd/localsock"
	"sheaf/robotd/status"
)

// controlSocket is where the running daemon answers the commands of its own user.
const controlSocket = "robotd.sock"

// What the daemon answers there. Metrics and health are on Config.Metrics too.
const (
	pathStatus  = "/status" // ?hosts=N, -1 for all
	pathPause   = "/pause"
	pathResume  = "/resume"
	pathMetrics = "/metrics"
	pathHealth  = "/healthz"
)

// serveControl answers until the returned function is called. A folder in which no
// socket can be made, as on some network disks, costs only the live view.
func (r *Robot) serveControl() (stop func(), err error) {
	watch := http.NewServeMux()
	watch.Handle("GET "+pathMetrics, r.metrics())
	watch.HandleFunc("GET "+pathHealth, r.health)
	control := http.NewServeMux()
	control.Handle("GET "+pathMetrics, watch)
	control.Handle("GET "+pathHealth, watch)
	control.HandleFunc("GET "+pathStatus, r.showStatus)
	control.HandleFunc("POST "+pathPause, func(w http.ResponseWriter, _ *http.Request) { r.setPaused(w, true) })
	control.HandleFunc("POST "+pathResume, func(w http.ResponseWriter, _ *http.Request) { r.setPaused(w, false) })

	var servers []*http.Server
	serve := func(l net.Listener, h http.Handler) {
		s := &http.Server{
			Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
			ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
		}
		servers = append(servers, s)
		go func() {
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				r.log.Error("no longer reachable by robotd's commands", "at", l.Addr(), "error", err)
			}
		}()
	}
	if r.cfg.Metrics != "" {
		l, err := net.Listen("tcp", r.cfg.Metrics)
		if err != nil {
			return nil, settings.Wrong("metrics", r.cfg.Metrics, err.Error())
		}
		serve(l, watch)
	}
	if l, err := localsock.Listen(r.path(controlSocket)); err != nil {
		r.log.Warn("robotd status shows no live figures, and pause needs a restart", "error", err)
	} else {
		serve(l, control)
	}
	return func() {
		for _, s := range servers {
			_ = s.Close() // nothing that a client still waits for matters now
		}
	}, nil
}

func (r *Robot) showStatus(w http.ResponseWriter, req *http.Request) {
	hosts, err := strconv.Atoi(req.FormValue("hosts"))
	if err != nil && req.FormValue("hosts") != "" {
		http.Error(w, "hosts is not a number", http.StatusBadRequest)
		return
	}
	s, err := r.status(hosts)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s) // the client is gone
}

// setPaused begins or ends the pause; 200 says that it is on the disk, and that no visit begins any more.
func (r *Robot) setPaused(w http.ResponseWriter, on bool) {
	changed, err := r.pause.set(on)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if changed {
		r.setGate()
		r.log.Info("pause", "on", on)
	}
	w.WriteHeader(http.StatusOK)
}

func (r *Robot) metrics() http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		status.Collector(func() (status.Status, error) { return r.status(0) }),
	)
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}

// health answers 200 while the daemon makes progress or has nothing to do, and 503 with
// the reasons where something waits and nothing moves.
func (r *Robot) health(w http.ResponseWriter, _ *http.Request) {
	s, err := r.status(0)
	if err != nil {
		s.Troubles = append(s.Troubles, err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	if len(s.Troubles) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{ // the client is gone
		"ok": len(s.Troubles) == 0, "troubles": s.Troubles, "warnings": s.Warnings,
		"paused": !s.Paused.IsZero(), "open": s.Open, "pages_per_minute": s.Pages.PerMinute,
	})
}
