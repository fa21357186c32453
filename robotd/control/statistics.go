package control

import (
	"log/slog"
	"time"
)

// LogStatistics logs the troubles and how busy the stages are, unless the last minute brought no
// page and there is no trouble.
func LogStatistics(s *Status, log *slog.Logger) {
	if s.Pages.PerMinute == 0 && len(s.Troubles) == 0 {
		return
	}
	args := []any{
		"pages", s.Pages.Total, "pages_per_minute", s.Pages.PerMinute, "bytes_per_minute", s.Bytes.PerMinute,
		"visited", s.Visited, "waiting", s.Waiting, "left_out", s.LeftOut,
	}
	for _, m := range s.Modules {
		args = append(args, slog.Group(m.Name, "queue", m.Queue, "per_minute", m.Passed.PerMinute, "each", m.Each.Round(time.Microsecond)))
	}
	for _, trouble := range s.Troubles {
		log.Error("no progress", "reason", trouble)
	}
	log.Info("statistics", args...)
}
