package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus/collectors"

	"sheaf/cmd/sheaf/service/monitor"
	"sheaf/internal/metrics"
	"sheaf/internal/transfers"
	"sheaf/manager"
)

// watchMetrics adds metrics that do not belong to one room. robots may be nil.
func (s *Service) watchMetrics(robots *manager.Manager, running *transfers.Running) {
	m := s.state.monitor
	m.Collect(collectors.NewDBStatsCollector(s.state.db, "control"))
	dirs := map[string]string{"data": s.cfg.Data}
	if s.cfg.has(roleIngest) {
		dirs["buffers"] = filepath.Join(s.cfg.Data, "buffers")
	}
	if dir, ok := s.cfg.StoreDir(); ok {
		dirs["store"] = dir
	}
	m.Add(healthSource(s.health), s.certs.metrics(), monitor.Store(s.state.objects.Usages), monitor.Disks(dirs), monitor.Running(running))
	if s.cfg.has(roleManager) {
		m.Add(monitor.Manager(robots))
	}
}

// serveMetrics serves metrics and profiles until ctx ends, if they have an address.
func (s *Service) serveMetrics(ctx context.Context) error {
	if s.listeners[portMetrics] == nil {
		return nil
	}
	server := &http.Server{
		Handler: s.state.monitor.Handler(), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(s.listeners[portMetrics]); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// healthSource gives the results of the checks behind /healthz.
func healthSource(h *health) metrics.Source {
	return metrics.Source{Name: "health", Ask: func(_ context.Context, out *metrics.Out) error {
		all := h.look()
		out.Gauge("build_info", "Always 1; the label is the program's version.", 1, "version", all.Version)
		out.Gauge("up", "1 while the process can work in all of its roles.", metrics.Truth(all.Status == healthOK))
		for _, role := range all.Roles {
			out.Gauge("role_ready", "1 while the process can work in the role.", metrics.Truth(all.Ready[role] == healthOK), "role", role)
		}
		for _, c := range all.Checks {
			out.Gauge("check_up", "1 if the check succeeded: the database answers, the store can be read, the catalog is there, the disk has room, uploads are accepted, leases are granted, certificates are valid, the clock is right.",
				metrics.Truth(c.Status == healthOK), "check", c.Name)
		}
		if h.clock != nil {
			out.Gauge("clock_ahead_seconds", "By how much this machine's clock is ahead of the database's; below 0: behind.", h.clock.Ahead().Seconds())
		}
		out.Counter("damaged_records_total", "Requests for a stored record that is damaged.", float64(all.DamagedRecords))
		return nil
	}}
}
