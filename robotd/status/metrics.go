package status

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// collector converts a status to Prometheus metrics on request.
type collector struct {
	read func() (Status, error)
}

// Collector returns a collector for the statuses that read returns. There are no metrics for single
// hosts, since there may be a hundred thousand.
func Collector(read func() (Status, error)) prometheus.Collector { return collector{read} }

// metric is a metric of a whole status.
type metric struct {
	name, help string
	kind       prometheus.ValueType
	value      func(*Status) float64
}

func metrics() []metric {
	const gauge = prometheus.GaugeValue
	return []metric{
		{"healthy", "1 while the daemon makes progress or has nothing to do.", gauge, func(s *Status) float64 { return truth(len(s.Troubles) == 0) }},
		{"warnings", "What the operator should look at.", gauge, func(s *Status) float64 { return float64(len(s.Warnings)) }},
		{"paused", "1 while the operator wants no visits.", gauge, func(s *Status) float64 { return truth(!s.Paused.IsZero()) }},
		{"held", "1 while the manager wants no visits.", gauge, func(s *Status) float64 { return truth(!s.Held.IsZero()) }},
		{"upload_sent_bytes", "Bytes that have gone out of the batch that is being sent; 0: none is.", gauge, func(s *Status) (n float64) {
			for _, b := range s.Spool {
				n += float64(b.Sent)
			}
			return n
		}},
		{"window_open", "1 while hosts may be visited.", gauge, func(s *Status) float64 { return truth(s.Open) }},
		{"cycle", "Number of the crawl cycle.", gauge, func(s *Status) float64 { return float64(s.Cycle) }},
		{"list_generation", "Generation of the list of hosts.", gauge, func(s *Status) float64 { return float64(s.Generation) }},
		{"hosts", "Hosts assigned.", gauge, func(s *Status) float64 { return float64(s.Hosts) }},
		{"hosts_waiting", "Hosts with pages left, those being visited included.", gauge, func(s *Status) float64 { return float64(s.Waiting) }},
		{"hosts_visited", "Hosts being visited now.", gauge, func(s *Status) float64 { return float64(s.Visited) }},
		{"hosts_left_out", "Hosts that could not be reached in this cycle.", gauge, func(s *Status) float64 { return float64(s.LeftOut) }},
		{"cycle_pages", "Pages stored in this cycle since the start.", gauge, func(s *Status) float64 { return float64(s.Pages.Total) }},
		{"cycle_bytes", "Bytes of their answers on the wire.", gauge, func(s *Status) float64 { return float64(s.Bytes.Total) }},
		{"segment_bytes", "Bytes in open segments.", gauge, func(s *Status) float64 { return float64(s.Segments) }},
		{"spool_batches", "Batches that are not published yet.", gauge, func(s *Status) float64 { return float64(len(s.Spool)) }},
		{"spool_bytes", "Their bytes.", gauge, func(s *Status) (n float64) {
			for _, b := range s.Spool {
				n += float64(b.Bytes)
			}
			return n
		}},
		{"spool_oldest_seconds", "Age of the oldest of them.", gauge, func(s *Status) float64 {
			if len(s.Spool) == 0 {
				return 0
			}
			return s.At.Sub(s.Spool[0].Made).Seconds()
		}},
		{"left_pages", "Pages that are known and not visited, about.", gauge, func(s *Status) float64 {
			if s.Forecast == nil {
				return 0
			}
			return float64(s.Forecast.Pages)
		}},
		{"left_fitting_pages", "Of them, those that can be visited before the window closes.", gauge, func(s *Status) float64 {
			if s.Forecast == nil {
				return 0
			}
			return float64(s.Forecast.Fits)
		}},
		{"next_visit_timestamp_seconds", "When the next visit may start; 0: none is planned.", gauge, func(s *Status) float64 { return seconds(s.Next.Visit) }},
		{"start_timestamp_seconds", "When the daemon started.", gauge, func(s *Status) float64 { return seconds(s.Started) }},
	}
}

const prefix = "robotd_"

// Describe sends nothing: the modules depend on the crawl.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics of one status.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s, err := c.read()
	if err != nil {
		out <- prometheus.NewInvalidMetric(prometheus.NewDesc(prefix+"up", "The status can be read.", nil, nil), err)
		return
	}
	for _, m := range metrics() {
		desc := prometheus.NewDesc(prefix+m.name, m.help, nil, nil)
		out <- prometheus.MustNewConstMetric(desc, m.kind, m.value(&s))
	}
	lost := prometheus.NewDesc(prefix+"lost_pages", "Pages and links not collected since the last batch.", []string{"kind"}, nil)
	for kind, n := range s.Lost {
		out <- prometheus.MustNewConstMetric(lost, prometheus.GaugeValue, float64(n), string(kind))
	}
	if v := s.Coverage; v != nil {
		pages := prometheus.NewDesc(prefix+"cycle_coverage", "What became of the cycle's pages since the start.", []string{"as"}, nil)
		for as, n := range map[string]int64{"taken": v.Pages, "unchanged": v.Unchanged, "other_answer": v.Answers, "not_reached": v.Left, "later_cycle": v.Later} {
			out <- prometheus.MustNewConstMetric(pages, prometheus.GaugeValue, float64(n), as)
		}
		for kind, reasons := range v.Lost {
			total := int64(0)
			for _, n := range reasons {
				total += n
			}
			out <- prometheus.MustNewConstMetric(pages, prometheus.GaugeValue, float64(total), string(kind))
		}
	}
	c.ways(out, "target", "way for batches", s.Targets)
	c.ways(out, "manager", "URL of the manager", s.Managers)
	by := []string{"module"}
	queue := prometheus.NewDesc(prefix+"module_queue", "Length of the module's queue.", by, nil)
	workers := prometheus.NewDesc(prefix+"module_workers", "Workers of the module, at most.", by, nil)
	passed := prometheus.NewDesc(prefix+"module_passed_total", "What passed the module in this cycle.", by, nil)
	busy := prometheus.NewDesc(prefix+"module_busy_seconds_total", "Time that the module's workers worked in this cycle.", by, nil)
	for _, m := range s.Modules {
		out <- prometheus.MustNewConstMetric(queue, prometheus.GaugeValue, float64(m.Queue), m.Name)
		out <- prometheus.MustNewConstMetric(workers, prometheus.GaugeValue, float64(m.Workers), m.Name)
		out <- prometheus.MustNewConstMetric(passed, prometheus.CounterValue, float64(m.Passed.Total), m.Name)
		out <- prometheus.MustNewConstMetric(busy, prometheus.CounterValue, m.Busy.Seconds(), m.Name)
	}
}

// ways sends the metrics of targets or managers, by name.
func (c collector) ways(out chan<- prometheus.Metric, label, what string, ways []Target) {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prefix+label+"_"+name, help, []string{label}, nil)
	}
	failures := desc("failures", "Failures in a row of the "+what+".")
	failed := desc("last_failure_timestamp_seconds", "When the "+what+" last failed; 0: not since the start.")
	answered := desc("last_success_timestamp_seconds", "When the "+what+" last did its work; 0: not since the start.")
	for _, t := range ways {
		out <- prometheus.MustNewConstMetric(failures, prometheus.GaugeValue, float64(t.Failures), t.Name)
		out <- prometheus.MustNewConstMetric(failed, prometheus.GaugeValue, seconds(t.Failed), t.Name)
		out <- prometheus.MustNewConstMetric(answered, prometheus.GaugeValue, seconds(t.Answered), t.Name)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
