// Package monitor has the service's metrics, by the conventions of Prometheus. At each scrape it
// asks the rooms for most of them. A few are counted where a room's calls pass: transfers, leases,
// HTTP, durable writes. The rooms know nothing of Prometheus.
//
// Labels have few values: no host's name, no account, no address. Robots have metrics of their own,
// up to a bound.
package monitor

import (
	"net/http"
	"net/http/pprof"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"sheaf/internal/metrics"
)

// prefix begins the names of the service's own metrics.
const prefix = "sheaf"

// Monitor counts what one process does, and asks its sources for other metrics. Its methods may be
// called concurrently.
type Monitor struct {
	transfers *transferCounts
	leases    *leaseCounts
	requests  *requestCounts
	writes    *prometheus.CounterVec

	mu         sync.Mutex // guards the fields below
	sources    []metrics.Source
	collectors []prometheus.Collector
}

// New returns a Monitor without sources.
func New() *Monitor {
	m := new(Monitor)
	m.transfers, m.leases, m.requests = newTransferCounts(m), newLeaseCounts(m), newRequestCounts(m)
	m.writes = m.counter("durable_writes_total", "Durable writes that have ended, by room and by what is written.", "room", "write")
	return m
}

// Add adds sources. Each scrape asks them.
func (m *Monitor) Add(sources ...metrics.Source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sources = append(m.sources, sources...)
}

// Collect adds a collector, and Handler serves its metrics too.
func (m *Monitor) Collect(c prometheus.Collector) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.collectors = append(m.collectors, c)
}

// Wrote is called before and after each durable write of a room. Only the second call counts.
func (m *Monitor) Wrote(room, write, when string) {
	if when == "after" {
		m.writes.WithLabelValues(room, write).Inc()
	}
}

// Handler serves metrics, and profiles under /debug/pprof/. It includes the sources that were added
// before. Profiles reveal much, so it belongs on a private address.
func (m *Monitor) Handler() http.Handler {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := append([]prometheus.Collector{metrics.Sources(prefix, m.sources...)}, m.collectors...)
	mux := http.NewServeMux()
	mux.Handle("GET "+metrics.Path, metrics.Handler(all...))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
