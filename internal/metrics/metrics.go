// Package metrics answers Prometheus' scrapes for both programs. At each scrape a Source reads
// values from where they are kept, such as the database, so that other packages need no counters
// for metrics. If a source fails or hangs, only its own metrics are missing from the scrape.
package metrics

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Path is the path of the URL at which metrics are served.
const Path = "/metrics"

// Handler answers scrapes with the metrics of the Go runtime, of the process, and of the
// collectors. It panics if two collectors describe the same metric.
func Handler(list ...prometheus.Collector) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reg.MustRegister(list...)
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Source provides metrics at each scrape. Its function must return soon after ctx has ended.
type Source struct {
	Name string
	Ask  func(ctx context.Context, out *Out) error
}

// Out takes the metrics of one source. It must not be used concurrently.
type Out struct {
	prefix string
	all    []prometheus.Metric
}

// Gauge adds a value that may rise and fall. name lacks the program's prefix. labels are names and
// values in turn.
func (o *Out) Gauge(name, help string, value float64, labels ...string) {
	o.add(prometheus.GaugeValue, name, help, value, labels)
}

// Counter adds a value that only rises while the process runs. Its name must end in _total.
func (o *Out) Counter(name, help string, value float64, labels ...string) {
	o.add(prometheus.CounterValue, name, help, value, labels)
}

func (o *Out) add(kind prometheus.ValueType, name, help string, value float64, labels []string) {
	var names, values []string
	for i := 0; i+1 < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	desc := prometheus.NewDesc(o.prefix+"_"+name, help, names, nil)
	o.all = append(o.all, prometheus.MustNewConstMetric(desc, kind, value, values...))
}

// Truth returns 1 for true and 0 for false.
func Truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Patience is how long a scrape waits for a source. Prometheus gives a scrape up after 10 seconds,
// if nothing else is set.
const Patience = 5 * time.Second

// sources asks all sources at each scrape.
type sources struct {
	prefix string
	all    []*source
}

// source is a Source and whether it is being asked.
type source struct {
	Source
	mu      sync.Mutex // guards asking
	asking  bool
	timeout time.Duration
}

// answer has the metrics of a source, or why it has given none.
type answer struct {
	out  *Out
	took time.Duration
	err  error
}

// Sources returns a collector that asks all sources at the same time, each for no longer than
// Patience. Names of metrics begin with prefix and a "_". The metric source_up says whether a
// source has answered, and source_duration_seconds how long that took; without an answer the
// source's own metrics are missing. A source that still hangs is not asked again.
func Sources(prefix string, list ...Source) prometheus.Collector {
	return newSources(prefix, Patience, list)
}

func newSources(prefix string, patience time.Duration, list []Source) *sources {
	s := &sources{prefix: prefix}
	for _, one := range list {
		s.all = append(s.all, &source{Source: one, timeout: patience})
	}
	return s
}

// Describe sends nothing, because the metrics depend on the sources' answers.
func (s *sources) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics of one scrape.
func (s *sources) Collect(to chan<- prometheus.Metric) {
	var asking sync.WaitGroup
	for _, one := range s.all {
		asking.Go(func() {
			a := one.ask(s.prefix)
			about := &Out{prefix: s.prefix}
			about.Gauge("source_up", "1 if this part of the program could tell its metrics at this scrape.", Truth(a.err == nil), "source", one.Name)
			about.Gauge("source_duration_seconds", "How long it took to ask this part of the program for its metrics.", a.took.Seconds(), "source", one.Name)
			if a.err == nil {
				about.all = append(about.all, a.out.all...)
			}
			for _, m := range about.all {
				to <- m
			}
		})
	}
	asking.Wait()
}

// ask asks the source, and gives up after its timeout.
func (s *source) ask(prefix string) answer {
	s.mu.Lock()
	if s.asking {
		s.mu.Unlock()
		return answer{err: context.DeadlineExceeded}
	}
	s.asking = true
	s.mu.Unlock()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	answered := make(chan answer, 1)
	go func() {
		out := &Out{prefix: prefix}
		err := s.Ask(ctx, out)
		s.mu.Lock()
		s.asking = false
		s.mu.Unlock()
		answered <- answer{out, time.Since(begun), err}
	}()
	select {
	case a := <-answered:
		return a
	case <-ctx.Done():
		return answer{took: time.Since(begun), err: ctx.Err()}
	}
}
