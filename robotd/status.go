package robotd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/coverage"
)

// Status is what a robot says of itself: the content of status.json.
type Status struct {
	Robot      string      `json:"robot"`
	Version    string      `json:"version"`
	PID        int         `json:"pid"`
	Started    time.Time   `json:"started"`
	At         time.Time   `json:"at"` // when this was written
	Window     string      `json:"window"`
	Open       bool        `json:"open"`             // whether the window is
	Changes    time.Time   `json:"changes,omitzero"` // when it closes or opens
	Generation int64       `json:"generation"`
	Cycle      int64       `json:"cycle"`
	Began      time.Time   `json:"began"`
	Ended      time.Time   `json:"ended,omitzero"`
	Hosts      int         `json:"hosts"`             // assigned
	Waiting    int         `json:"waiting"`           // with something left to visit
	LeftOut    int         `json:"left_out"`          // that could not be reached in this cycle
	Pages      int64       `json:"pages"`             // stored in this cycle since the start
	Bytes      int64       `json:"bytes"`             // of their answers on the wire
	Segments   int64       `json:"segments"`          // bytes in open segments
	Found      int         `json:"found"`             // hosts found outside the assignment
	Lost       Lost        `json:"lost"`              // since the last batch
	Clock      *wire.Clock `json:"clock,omitempty"`   // against the manager's; nil: not measured
	Dropped    int64       `json:"dropped,omitempty"` // records that consumers of the tap did not get
	NextVisit  time.Time   `json:"next_visit,omitzero"`
	Modules    []Module    `json:"modules,omitempty"`
	Spool      []Waiting   `json:"spool,omitempty"`
}

// Lost counts by kind what was not collected since the last batch; the batch's
// manifest has the reasons, by host.
type Lost map[coverage.Kind]int64

// String writes the counts as "3 refused, 1 failed".
func (l Lost) String() string {
	var words []string
	for _, kind := range slices.Sorted(maps.Keys(l)) {
		words = append(words, fmt.Sprintf("%d %s", l[kind], kind))
	}
	if words == nil {
		return "nothing"
	}
	return strings.Join(words, ", ")
}

// Module says how busy a stage of the crawl is.
type Module struct {
	Name   string        `json:"name"`
	Queue  int           `json:"queue"`
	Passed int64         `json:"passed"`
	Busy   time.Duration `json:"busy"` // nanoseconds of work, over all workers
}

// Waiting is a batch that is not published yet.
type Waiting struct {
	Batch wire.BatchID `json:"batch"`
	Bytes int64        `json:"bytes"`
}

const statusFile = "status.json"

func (r *Robot) status() (Status, error) {
	now := time.Now()
	s := Status{
		Robot: r.id.Robot, Version: Version, PID: os.Getpid(), Started: r.started, At: now,
		Window: r.plan.Window.String(), Open: r.plan.Window.Open(now),
		Segments: r.batches.Size(), Found: r.found.len(),
		Lost: r.ledger.Totals(), Clock: r.manager.clock.measured(),
	}
	if s.Open {
		s.Changes = r.plan.Window.Until(now)
	} else {
		s.Changes, _ = r.plan.Window.Next(now)
	}
	if r.tap != nil {
		s.Dropped = r.tap.Dropped()
	}
	s.NextVisit, _ = r.gate.NextTime()
	r.mu.Lock()
	s.Generation, s.Cycle, s.Began, s.Ended = r.list.Generation, r.cycle.Number, r.cycle.Began, r.cycle.Ended
	s.Hosts = len(r.list.hosts())
	c := r.crawl
	r.mu.Unlock()
	if c != nil {
		c.describe(&s)
	}
	batches, err := r.batches.Spool()
	for _, b := range batches {
		s.Spool = append(s.Spool, Waiting{b.ID, b.Size})
	}
	return s, err
}

func (c *crawl) describe(s *Status) {
	s.Waiting = c.gate.Len()
	for _, h := range c.all() {
		s.Pages += h.pages.Load()
		s.Bytes += h.bytes.Load()
		if h.idle.Load() {
			s.LeftOut++
		}
	}
	for _, m := range []module{c.fetching, c.extracting, c.storing} {
		if m.passed != nil {
			s.Modules = append(s.Modules, Module{m.name, len(m.in), m.passed.Load(), time.Duration(m.busy.Load())})
		}
	}
}

func (r *Robot) saveStatus() error {
	s, err := r.status()
	if err != nil {
		return err
	}
	return errors.Join(saveJSON(r.path(statusFile), s), r.saveUsage())
}

// ReadStatus returns what the robot in dir last said of itself, and whether its
// daemon runs now.
func ReadStatus(dir string) (s Status, running bool, err error) {
	data, err := os.ReadFile(filepath.Join(dir, statusFile))
	if os.IsNotExist(err) {
		return s, false, fmt.Errorf("no robot has run in %s yet", dir)
	}
	if err != nil {
		return s, false, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, false, fmt.Errorf("%s: %w", filepath.Join(dir, statusFile), err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return s, true, nil
	}
	return s, false, lock.Close()
}

// Print writes the status for people.
func (s Status) Print(w io.Writer, running bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	state := "stopped"
	if running {
		state = fmt.Sprintf("runs as process %d since %s", s.PID, s.Started.Local().Format(time.DateTime))
	}
	row("robot", "%s %s, %s", s.Robot, s.Version, state)
	row("as of", "%s", s.At.Local().Format(time.DateTime))
	window := map[bool]string{false: "closed", true: "open"}[s.Open]
	switch {
	case s.Changes.IsZero(): // always, or never
	case s.Open:
		window += ", closes " + s.Changes.Local().Format(time.DateTime)
	default:
		window += ", opens " + s.Changes.Local().Format(time.DateTime)
	}
	row("window", "%s; %s", s.Window, window)
	row("list", "generation %d, %d hosts", s.Generation, s.Hosts)
	cycle := "not begun"
	switch {
	case s.Cycle > 0 && s.Ended.IsZero():
		cycle = fmt.Sprintf("%d, began %s", s.Cycle, s.Began.Local().Format(time.DateTime))
	case s.Cycle > 0:
		cycle = fmt.Sprintf("%d, ended %s", s.Cycle, s.Ended.Local().Format(time.DateTime))
	}
	row("cycle", "%s", cycle)
	row("hosts", "%d with pages left, %d left out", s.Waiting, s.LeftOut)
	row("pages", "%d, %d bytes on the wire", s.Pages, s.Bytes)
	row("lost", "%s since the last batch", s.Lost)
	if s.Clock != nil {
		row("clock", "%+d ms against the manager's, give or take %d", s.Clock.OffsetMS, s.Clock.ErrorMS)
	}
	if s.Dropped > 0 {
		row("tap", "%d records dropped for slow consumers", s.Dropped)
	}
	row("segments", "%d bytes", s.Segments)
	row("found", "%d hosts outside the list", s.Found)
	for _, m := range s.Modules {
		row(m.Name, "%d passed, %d queued, %v of work", m.Passed, m.Queue, m.Busy.Round(time.Millisecond))
	}
	for _, b := range s.Spool {
		row("spool", "%s, %d bytes", b.Batch, b.Bytes)
	}
	return t.Flush()
}
