package control

import (
	"log/slog"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/config"
	"sheaf/robotd/crawl"
	"sheaf/robotd/fetch"
	"sheaf/robotd/polite"
)

// Status is a robot's state at one moment, as `robotd status --json` prints it. Unknown times are
// zero.
type Status struct {
	Robot    string    `json:"robot"`
	Version  string    `json:"version"`
	PID      int       `json:"pid"`
	Started  time.Time `json:"started"`
	At       time.Time `json:"at"`       // time of this status
	Troubles []string  `json:"troubles"` // why the daemon makes no progress; empty: it does
	Warnings []string  `json:"warnings"` // what the operator should know

	polite.Hours
	Collection
	crawl.Progress
	Stored

	Hands    []fetch.Hand         `json:"hands,omitempty"` // that are connected
	Clock    *wire.Clock          `json:"clock,omitempty"` // difference from the manager's clock; nil: not measured
	Tap      *TapStatus           `json:"tap,omitempty"`   // nil: there is none
	Page     string               `json:"page,omitempty"`  // URL of the page that shows this robot; empty: not known yet
	Next     Next                 `json:"next"`
	Spool    []Batch              `json:"spool,omitempty"`
	Targets  []config.TargetState `json:"targets,omitempty"`  // ways to the service, in the order of preference
	Managers []config.TargetState `json:"managers,omitempty"` // URLs of the manager, in the order of preference
}

// Collection is the cycle, and the hosts that the manager has given to the robot.
type Collection struct {
	Generation int64     `json:"generation"`
	Hosts      int       `json:"hosts"`
	Cycle      int64     `json:"cycle"`
	Began      time.Time `json:"began"`
	Ended      time.Time `json:"ended,omitzero"`
}

// Stored is what the robot has collected and not sealed into a batch. Lost counts by kind; the
// batch's manifest has the reasons by host.
type Stored struct {
	Segments int64            `json:"segments"` // bytes in open segments
	Sealing  int64            `json:"sealing"`  // bytes in segments that are being made into a batch
	Found    int              `json:"found"`    // hosts found outside the assignment that were not reported to the manager yet
	Lost     map[string]int64 `json:"lost"`     // not collected, since the last batch
}

// TapStatus describes the consumers that read records as they are stored.
type TapStatus struct {
	Consumers int   `json:"consumers"`
	Dropped   int64 `json:"dropped"` // records that consumers missed, since the start
}

// Next has the times of the next events; zero: none is planned.
type Next struct {
	Visit   time.Time `json:"visit,omitzero"`
	Cycle   time.Time `json:"cycle,omitzero"`
	Log     time.Time `json:"log,omitzero"`     // sending the log to the manager
	Manager time.Time `json:"manager,omitzero"` // asking the manager for changes
}

// Batch is a batch that is not published yet.
type Batch struct {
	ID    wire.BatchID `json:"batch"`
	Bytes int64        `json:"bytes"`
	Made  time.Time    `json:"made"`

	State string    `json:"state,omitempty"` // state at the service; empty: the service does not have the batch
	To    string    `json:"to,omitempty"`    // target to which it is being sent
	Sent  int64     `json:"sent"`            // bytes sent there
	Rate  int64     `json:"rate"`            // of this try, in bytes a second
	Error string    `json:"error,omitempty"` // why it has not arrived
	Next  time.Time `json:"next,omitzero"`   // time of the next step: sending it, or asking for its receipt
}

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
