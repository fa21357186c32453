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

// tell adds all metrics of a status.
func tell(out *metrics.Out, s *Status) {
	var sent, spool, oldest, left, fits float64
	for i, b := range s.Spool {
		if i == 0 {
			oldest = s.At.Sub(b.Made).Seconds()
		}
		sent += float64(b.Sent)
		spool += float64(b.Bytes)
	}
	if f := s.Forecast; f != nil {
		left, fits = float64(f.Pages), float64(f.Fits)
	}
	out.Gauge("healthy", "1 while the daemon makes progress or has nothing to do.", metrics.Truth(len(s.Troubles) == 0))
	out.Gauge("warnings", "What the operator should look at.", float64(len(s.Warnings)))
	out.Gauge("paused", "1 while the operator wants no visits.", metrics.Truth(!s.Paused.IsZero()))
	out.Gauge("held", "1 while the manager wants no visits.", metrics.Truth(!s.Held.IsZero()))
	out.Gauge("upload_sent_bytes", "Bytes that have gone out of the batch that is being sent; 0: none is.", sent)
	out.Gauge("window_open", "1 while hosts may be visited.", metrics.Truth(s.Open))
	out.Gauge("cycle", "Number of the crawl cycle.", float64(s.Cycle))
	out.Gauge("list_generation", "Generation of the list of hosts.", float64(s.Generation))
	out.Gauge("hosts", "Hosts assigned.", float64(s.Hosts))
	out.Gauge("hosts_waiting", "Hosts with pages left, those being visited included.", float64(s.Waiting))
	out.Gauge("hosts_visited", "Hosts being visited now.", float64(s.Visited))
	out.Gauge("hosts_left_out", "Hosts that could not be reached in this cycle.", float64(s.LeftOut))
	out.Gauge("hands", "Hands that are connected.", float64(len(s.Hands)))
	out.Gauge("cycle_pages", "Pages stored in this cycle since the start.", float64(s.Pages.Total))
	out.Gauge("cycle_bytes", "Bytes of their answers on the wire.", float64(s.Bytes.Total))
	out.Gauge("segment_bytes", "Bytes in open segments.", float64(s.Segments))
	out.Gauge("spool_batches", "Batches that are not published yet.", float64(len(s.Spool)))
	out.Gauge("spool_bytes", "Their bytes.", spool)
	out.Gauge("spool_oldest_seconds", "Age of the oldest of them.", oldest)
	out.Gauge("left_pages", "Pages that are known and not visited, about.", left)
	out.Gauge("left_fitting_pages", "Of them, those that can be visited before the window closes.", fits)
	out.Gauge("next_visit_timestamp_seconds", "When the next visit may start; 0: none is planned.", seconds(s.Next.Visit))
	out.Gauge("start_timestamp_seconds", "When the daemon started.", seconds(s.Started))
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
