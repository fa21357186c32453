// Package status is what a robot says of itself: to people on a terminal, to programs as
// JSON, to Prometheus.
package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/coverage"
)

// Status is a robot's state at one moment. Times that are not known are zero.
type Status struct {
	Robot      string      `json:"robot"`
	Version    string      `json:"version"`
	PID        int         `json:"pid"`
	Started    time.Time   `json:"started"`
	At         time.Time   `json:"at"`              // of which all of this is true
	Troubles   []string    `json:"troubles"`        // why the daemon makes no progress; empty: it does
	Warnings   []string    `json:"warnings"`        // what its operator should know
	Paused     time.Time   `json:"paused,omitzero"` // since when, by the robot's own site
	Held       time.Time   `json:"held,omitzero"`   // since when, by the manager's order
	Window     string      `json:"window"`
	Open       bool        `json:"open"`             // whether the window is
	Changes    time.Time   `json:"changes,omitzero"` // when it closes or opens
	Budget     time.Time   `json:"budget,omitzero"`  // until when the limit of bytes holds the robot up
	Generation int64       `json:"generation"`
	Cycle      int64       `json:"cycle"`
	Began      time.Time   `json:"began"`
	Ended      time.Time   `json:"ended,omitzero"`
	Hosts      int         `json:"hosts"`              // assigned
	Addresses  int         `json:"addresses"`          // on which those with pages left live
	Waiting    int         `json:"waiting"`            // with something left to visit
	Visited    int         `json:"visited"`            // of those, right now
	LeftOut    int         `json:"left_out"`           // that have no address, or rest because they fail
	Unreached  []string    `json:"unreached"`          // some of those left out
	Pages      Rate        `json:"pages"`              // stored in this cycle since the start
	Bytes      Rate        `json:"bytes"`              // of their answers on the wire
	Segments   int64       `json:"segments"`           // bytes in open segments
	Found      int         `json:"found"`              // hosts found outside the assignment that the manager has not been told of
	Lost       Lost        `json:"lost"`               // since the last batch
	Coverage   *Coverage   `json:"coverage,omitempty"` // of the cycle; nil: none has begun since the start
	Clock      *wire.Clock `json:"clock,omitempty"`    // against the manager's; nil: not measured
	Tap        *Tap        `json:"tap,omitempty"`      // nil: there is none
	Next       Next        `json:"next"`
	Forecast   *Forecast   `json:"forecast,omitempty"` // nil: nothing is left
	Modules    []Module    `json:"modules,omitempty"`
	Spool      []Batch     `json:"spool,omitempty"`
	Targets    []Target    `json:"targets,omitempty"`  // ways to the service, in the order of preference
	Managers   []Target    `json:"managers,omitempty"` // URLs of the manager, in that order
	PerHost    []Host      `json:"per_host,omitempty"` // as many as were asked for, the busiest first
}

// Rate is a count and how fast it grows.
type Rate struct {
	Total     int64 `json:"total"`
	PerMinute int64 `json:"per_minute"` // within the last minute
}

// Tap says who reads records as they are stored.
type Tap struct {
	Consumers int   `json:"consumers"`
	Dropped   int64 `json:"dropped"` // records that consumers did not get, since the start
}

// Next is what the robot will do, and when; zero: nothing of the kind is planned.
type Next struct {
	Visit   time.Time `json:"visit,omitzero"`
	Cycle   time.Time `json:"cycle,omitzero"`
	Log     time.Time `json:"log,omitzero"`     // is sent to the manager
	Manager time.Time `json:"manager,omitzero"` // is asked for changes
}

// Module says how busy a stage of the crawl is: paper 003 asks each for its queue's length,
// its rate and its time.
type Module struct {
	Name    string        `json:"name"`
	Queue   int           `json:"queue"`
	Workers int           `json:"workers"` // at most
	Passed  Rate          `json:"passed"`
	Busy    time.Duration `json:"busy"` // nanoseconds of work, over all workers
	Each    time.Duration `json:"each"` // nanoseconds that one took, in the last minute
}

// Batch is one that is not published yet.
type Batch struct {
	ID    wire.BatchID `json:"batch"`
	Bytes int64        `json:"bytes"`
	Made  time.Time    `json:"made"`

	State string    `json:"state,omitempty"` // what the service says of it; empty: it has not got it
	To    string    `json:"to,omitempty"`    // the target that it is being sent to
	Sent  int64     `json:"sent"`            // bytes that have gone there
	Rate  int64     `json:"rate"`            // bytes a second of this try
	Error string    `json:"error,omitempty"` // why it is not there yet
	Next  time.Time `json:"next,omitzero"`   // when it is looked at again
}

// Target is a way to the service.
type Target struct {
	Name     string    `json:"target"`
	Failures int       `json:"failures"`          // in a row
	Again    time.Time `json:"again,omitzero"`    // left alone until then
	Error    string    `json:"error,omitempty"`   // of the last failure since the start
	Failed   time.Time `json:"failed,omitzero"`   // when that was
	Answered time.Time `json:"answered,omitzero"` // when it last took a batch, or answered
}

// HostState says what becomes of a host now.
type HostState string

// The states of a host.
const (
	Visiting HostState = "visiting"
	Waits    HostState = "waiting"
	LeftOut  HostState = "left out" // it has no address, or rests because it fails
	Done     HostState = "done"     // for this cycle
)

// Host is what there is to say of one host.
type Host struct {
	Name    string    `json:"host"`
	Address string    `json:"address,omitempty"`
	State   HostState `json:"state"`
	Pages   Rate      `json:"pages"`
	Bytes   Rate      `json:"bytes"`
	Left    int64     `json:"left"` // pages that are known and not visited
	Next    time.Time `json:"next,omitzero"`
	Why     string    `json:"why,omitempty"` // it is not visited now
}

// Lost counts by kind what was not collected since the last batch; the batch's
// manifest has the reasons, by host.
type Lost map[coverage.Kind]int64

// String writes the counts as "3 refused, 1 failed".
func (l Lost) String() string {
	var words []string
	for _, kind := range slices.Sorted(maps.Keys(l)) {
		words = append(words, fmt.Sprintf("%s %s", count(l[kind]), kind))
	}
	if words == nil {
		return "nothing"
	}
	return strings.Join(words, ", ")
}
