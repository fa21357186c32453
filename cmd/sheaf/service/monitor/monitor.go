// Package monitor has the service's metrics, by the conventions of Prometheus. At each scrape it
// asks the rooms for most of them. A few are counted where a room's calls pass: transfers, leases,
// HTTP, durable writes. The rooms know nothing of Prometheus.
//
// Labels have few values: no host's name, no account, no address. Robots have metrics of their own,
// up to a bound.
package monitor

import (
	"context"
	"errors"
	"net/http"
	"net/http/pprof"
	"sync"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sheaf/internal/ftp"
	"sheaf/internal/lease"
	"sheaf/internal/metrics"
	"sheaf/internal/transfers"
)

// prefix begins the names of the service's own metrics.
const prefix = "sheaf"

// Monitor counts what one process does, and asks its sources for other metrics. Its methods may be
// called concurrently.
type Monitor struct {
	transfers *transferCounts
	requests  *requestCounts
	writes    *prometheus.CounterVec

	mu         sync.Mutex // guards the fields below
	sources    []metrics.Source
	collectors []prometheus.Collector
}

// New returns a Monitor without sources.
func New() *Monitor {
	m := new(Monitor)
	m.transfers, m.requests = newTransferCounts(m), newRequestCounts(m)
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

// counter returns a counter that Handler serves.
func (m *Monitor) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: prefix, Name: name, Help: help}, labels)
	m.Collect(c)
	return c
}

// gauge returns a gauge that Handler serves.
func (m *Monitor) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: prefix, Name: name, Help: help}, labels)
	m.Collect(g)
	return g
}

// transferCounts counts the transfers that have ended.
type transferCounts struct {
	ended          *prometheus.CounterVec
	bytes, seconds *prometheus.CounterVec
}

func newTransferCounts(m *Monitor) *transferCounts {
	return &transferCounts{
		ended:   m.counter("transfers_total", "Transfers that have ended. Uploads are from robots, downloads by consumers.", "direction", "protocol", "outcome"),
		bytes:   m.counter("transfer_bytes_total", "Bytes of transfers that have ended, counted when they ended.", "direction", "protocol"),
		seconds: m.counter("transfer_duration_seconds_total", "Time that transfers took, added up when they ended. Bytes divided by it are the mean rate of a transfer.", "direction", "protocol"),
	}
}

// recorder counts transfers, and passes them on to its Recorder.
type recorder struct {
	transfers.Recorder
	counts *transferCounts
}

// Transfers returns a recorder that counts transfers before next records them.
func (m *Monitor) Transfers(next transfers.Recorder) transfers.Recorder {
	return recorder{next, m.transfers}
}

// Record implements transfers.Recorder. It counts a transfer's bytes and time before it counts its
// end.
func (r recorder) Record(ctx context.Context, t transfers.Transfer) error {
	r.counts.bytes.WithLabelValues(t.Direction, t.Protocol).Add(float64(max(t.Bytes, 0)))
	r.counts.seconds.WithLabelValues(t.Direction, t.Protocol).Add(max(t.Took.Seconds(), 0))
	r.counts.ended.WithLabelValues(t.Direction, t.Protocol, t.Outcome).Inc()
	return r.Recorder.Record(ctx, t)
}

// locker is a Locker that counts this process's leases by name. There are few names.
type locker struct {
	lease.Locker
	held, waiting      *prometheus.GaugeVec
	granted, lost, bad *prometheus.CounterVec
}

// Leases returns a Locker that counts what next grants. Call it once.
func (m *Monitor) Leases(next lease.Locker) lease.Locker {
	return locker{
		Locker:  next,
		held:    m.gauge("lease_held", "1 while this process holds the lease.", "lease"),
		waiting: m.gauge("lease_waiting", "How often this process waits for the lease now.", "lease"),
		granted: m.counter("lease_grants_total", "How often this process got the lease.", "lease"),
		lost:    m.counter("lease_losses_total", "How often this process lost the lease while it held it.", "lease"),
		bad:     m.counter("lease_failures_total", "How often this process asked for the lease and got an error.", "lease"),
	}
}

// Do implements lease.Locker. A wait that ctx ends does not count as a failure.
func (l locker) Do(ctx context.Context, name string, f func(ctx context.Context, token int64) error) error {
	held, waiting, lost := l.held.WithLabelValues(name), l.waiting.WithLabelValues(name), l.lost.WithLabelValues(name)
	granted := false
	waiting.Inc()
	err := l.Locker.Do(ctx, name, func(ctx context.Context, token int64) error {
		granted = true
		waiting.Dec()
		l.granted.WithLabelValues(name).Inc()
		held.Inc()
		defer held.Dec()
		err := f(ctx, token)
		if errors.Is(context.Cause(ctx), lease.ErrLost) {
			lost.Inc()
		}
		return err
	})
	if !granted {
		waiting.Dec()
		if ctx.Err() == nil {
			l.bad.WithLabelValues(name).Inc()
		}
	}
	return err
}

// requestCounts counts the HTTP requests by route. There are only as many routes as the program
// defines.
type requestCounts struct {
	ended   *prometheus.CounterVec
	running prometheus.Gauge
	began   *prometheus.HistogramVec
	handler http.Handler // counts a request, and passes it to the handler in its routed
}

func newRequestCounts(m *Monitor) *requestCounts {
	c := &requestCounts{
		ended: m.counter("http_requests_total", "HTTP requests that were answered, by the pattern of their route.", "route", "method", "code"),
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: prefix, Name: "http_requests_running", Help: "HTTP requests that are being answered now.",
		}),
		began: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: prefix, Name: "http_response_wait_seconds", Help: "Time from an HTTP request to the beginning of its answer.",
			Buckets: []float64{.003, .01, .03, .1, .3, 1, 3, 10},
		}, []string{"route"}),
	}
	m.Collect(c.running)
	m.Collect(c.began)
	route := promhttp.WithLabelFromCtx("route", func(ctx context.Context) string { return ctx.Value(routed{}).(routed).pattern })
	c.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Context().Value(routed{}).(routed).next.ServeHTTP(w, r)
	})
	c.handler = promhttp.InstrumentHandlerCounter(c.ended, c.handler, route)
	c.handler = promhttp.InstrumentHandlerTimeToWriteHeader(c.began, c.handler, route)
	c.handler = promhttp.InstrumentHandlerInFlight(c.running, c.handler)
	return c
}

// routed says where a request goes. The zero value of its type is its key in the request's context.
type routed struct {
	pattern string // of the route
	next    http.Handler
}

// noRoute is the route of requests for paths that do not exist.
const noRoute = "none"

// HTTP is middleware of the router: it counts the requests that the router passes to next. As a
// wrapper of the router's NotFoundHandler, it counts requests for unknown paths.
func (m *Monitor) HTTP(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pattern := noRoute
		if found := mux.CurrentRoute(r); found != nil {
			if text, err := found.GetPathTemplate(); err == nil {
				pattern = text
			}
		}
		m.requests.handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), routed{}, routed{pattern, next})))
	})
}

// FTP gives the counts of FTP servers, by the servers' names.
func FTP(servers map[string]*ftp.Counts) metrics.Source {
	return metrics.Source{Name: "ftp", Ask: func(_ context.Context, out *metrics.Out) error {
		for server, c := range servers {
			out.Gauge("ftp_sessions", "FTP sessions that are open.", float64(c.Open.Load()), "server", server)
			out.Counter("ftp_sessions_total", "FTP sessions that have begun.", float64(c.Accepted.Load()), "server", server)
			out.Counter("ftp_sessions_refused_total", "FTP connections that were refused because there were too many.", float64(c.Refused.Load()), "server", server)
			out.Counter("ftp_data_handshakes_total", "TLS handshakes of FTP data connections.", float64(c.Secured.Load()), "server", server)
			out.Counter("ftp_data_resumptions_total", "TLS handshakes of FTP data connections that continued a session, as that of the control connection.", float64(c.Resumed.Load()), "server", server)
			out.Counter("ftp_logins_total", "Logins by FTP that succeeded.", float64(c.Logins.Load()), "server", server)
		}
		return nil
	}}
}
