package control

import (
	"context"
	"net/http"
	"time"

	"sheaf/internal/metrics"
	"sheaf/robotd/config"
)

// metrics answers with the metrics about the status. Single hosts have no metrics, since there may
// be a hundred thousand.
func (s *Server) metrics() http.Handler {
	return metrics.Handler(metrics.Sources("robotd", metrics.Source{Name: "status", Ask: func(_ context.Context, out *metrics.Out) error {
		st, err := s.Status(0)
		if err == nil {
			tell(out, &st)
		}
		return err
	}}))
}

// metric is a metric that has one value in a status.
type metric struct {
	name, help string
	value      func(*Status) float64
}

// gauges returns all such metrics.
func gauges() []metric {
	return []metric{
		{"healthy", "1 while the daemon makes progress or has nothing to do.", func(s *Status) float64 { return metrics.Truth(len(s.Troubles) == 0) }},
		{"warnings", "What the operator should look at.", func(s *Status) float64 { return float64(len(s.Warnings)) }},
		{"paused", "1 while the operator wants no visits.", func(s *Status) float64 { return metrics.Truth(!s.Paused.IsZero()) }},
		{"held", "1 while the manager wants no visits.", func(s *Status) float64 { return metrics.Truth(!s.Held.IsZero()) }},
		{"upload_sent_bytes", "Bytes that have gone out of the batch that is being sent; 0: none is.", func(s *Status) (n float64) {
			for _, b := range s.Spool {
				n += float64(b.Sent)
			}
			return n
		}},
		{"window_open", "1 while hosts may be visited.", func(s *Status) float64 { return metrics.Truth(s.Open) }},
		{"cycle", "Number of the crawl cycle.", func(s *Status) float64 { return float64(s.Cycle) }},
		{"list_generation", "Generation of the list of hosts.", func(s *Status) float64 { return float64(s.Generation) }},
		{"hosts", "Hosts assigned.", func(s *Status) float64 { return float64(s.Hosts) }},
		{"hosts_waiting", "Hosts with pages left, those being visited included.", func(s *Status) float64 { return float64(s.Waiting) }},
		{"hosts_visited", "Hosts being visited now.", func(s *Status) float64 { return float64(s.Visited) }},
		{"hosts_left_out", "Hosts that could not be reached in this cycle.", func(s *Status) float64 { return float64(s.LeftOut) }},
		{"hands", "Hands that are connected.", func(s *Status) float64 { return float64(len(s.Hands)) }},
		{"cycle_pages", "Pages stored in this cycle since the start.", func(s *Status) float64 { return float64(s.Pages.Total) }},
		{"cycle_bytes", "Bytes of their answers on the wire.", func(s *Status) float64 { return float64(s.Bytes.Total) }},
		{"segment_bytes", "Bytes in open segments.", func(s *Status) float64 { return float64(s.Segments) }},
		{"spool_batches", "Batches that are not published yet.", func(s *Status) float64 { return float64(len(s.Spool)) }},
		{"spool_bytes", "Their bytes.", func(s *Status) (n float64) {
			for _, b := range s.Spool {
				n += float64(b.Bytes)
			}
			return n
		}},
		{"spool_oldest_seconds", "Age of the oldest of them.", func(s *Status) float64 {
			if len(s.Spool) == 0 {
				return 0
			}
			return s.At.Sub(s.Spool[0].Made).Seconds()
		}},
		{"left_pages", "Pages that are known and not visited, about.", func(s *Status) float64 {
			if s.Forecast == nil {
				return 0
			}
			return float64(s.Forecast.Pages)
		}},
		{"left_fitting_pages", "Of them, those that can be visited before the window closes.", func(s *Status) float64 {
			if s.Forecast == nil {
				return 0
			}
			return float64(s.Forecast.Fits)
		}},
		{"next_visit_timestamp_seconds", "When the next visit may start; 0: none is planned.", func(s *Status) float64 { return seconds(s.Next.Visit) }},
		{"start_timestamp_seconds", "When the daemon started.", func(s *Status) float64 { return seconds(s.Started) }},
	}
}

// tell adds all metrics of a status.
func tell(out *metrics.Out, s *Status) {
	for _, m := range gauges() {
		out.Gauge(m.name, m.help, m.value(s))
	}
	for kind, n := range s.Lost {
		out.Gauge("lost_pages", "Pages and links not collected since the last batch.", float64(n), "kind", string(kind))
	}
	if v := s.Coverage; v != nil {
		const help = "What became of the cycle's pages since the start."
		for as, n := range map[string]int64{"taken": v.Pages, "unchanged": v.Unchanged, "other_answer": v.Answers, "not_reached": v.Left, "later_cycle": v.Later} {
			out.Gauge("cycle_coverage", help, float64(n), "as", as)
		}
		for kind, reasons := range v.Lost {
			total := int64(0)
			for _, n := range reasons {
				total += n
			}
			out.Gauge("cycle_coverage", help, float64(total), "as", string(kind))
		}
	}
	ways(out, "target", "way for batches", s.Targets)
	ways(out, "manager", "URL of the manager", s.Managers)
	for _, m := range s.Modules {
		out.Gauge("module_queue", "Length of the module's queue.", float64(m.Queue), "module", m.Name)
		out.Gauge("module_workers", "Workers of the module, at most.", float64(m.Workers), "module", m.Name)
		out.Counter("module_passed_total", "What passed the module in this cycle.", float64(m.Passed.Total), "module", m.Name)
		out.Counter("module_busy_seconds_total", "Time that the module's workers worked in this cycle.", m.Busy.Seconds(), "module", m.Name)
	}
}

// ways adds the metrics of targets or managers, by name.
func ways(out *metrics.Out, label, what string, ways []config.TargetState) {
	for _, t := range ways {
		out.Gauge(label+"_failures", "Failures in a row of the "+what+".", float64(t.Failures), label, t.Name)
		out.Gauge(label+"_last_failure_timestamp_seconds", "When the "+what+" last failed; 0: not since the start.", seconds(t.Failed), label, t.Name)
		out.Gauge(label+"_last_success_timestamp_seconds", "When the "+what+" last did its work; 0: not since the start.", seconds(t.Answered), label, t.Name)
	}
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
