package robotd

import (
	"context"
	"log/slog"
	"time"
)

// logStatistics writes one line on how busy the modules are (the collector's statistics
// of the paper of 1997), unless nothing has happened within the last minute.
func (r *Robot) logStatistics(context.Context) error {
	s, err := r.status(0)
	if err != nil {
		return err
	}
	if s.Pages.PerMinute == 0 && len(s.Troubles) == 0 {
		return nil
	}
	args := []any{
		"pages", s.Pages.Total, "pages_per_minute", s.Pages.PerMinute, "bytes_per_minute", s.Bytes.PerMinute,
		"visited", s.Visited, "waiting", s.Waiting, "left_out", s.LeftOut,
	}
	for _, m := range s.Modules {
		args = append(args, slog.Group(m.Name, "queue", m.Queue, "per_minute", m.Passed.PerMinute, "each", m.Each.Round(time.Microsecond)))
	}
	for _, trouble := range s.Troubles {
		r.log.Error("no progress", "trouble", trouble)
	}
	r.log.Info("statistics", args...)
	return nil
}
