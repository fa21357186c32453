package status

import (
	"time"

	"sheaf/internal/wire"
)

// Status is a robot's state at one moment. Unknown times are zero.
type Status struct {
	Robot    string    `json:"robot"`
	Version  string    `json:"version"`
	PID      int       `json:"pid"`
	Started  time.Time `json:"started"`
	At       time.Time `json:"at"`       // time of this status
	Troubles []string  `json:"troubles"` // why the daemon makes no progress; empty: it does
	Warnings []string  `json:"warnings"` // what the operator should know

	Hours
	Collection
	Assigned
	Stored
	Work

	Clock    *wire.Clock `json:"clock,omitempty"` // difference from the manager's clock; nil: not measured
	Tap      *Tap        `json:"tap,omitempty"`   // nil: there is none
	Page     string      `json:"page,omitempty"`  // URL of the page that shows this robot; empty: not known yet
	Next     Next        `json:"next"`
	Spool    []Batch     `json:"spool,omitempty"`
	Targets  []Target    `json:"targets,omitempty"`  // ways to the service, in the order of preference
	Managers []Target    `json:"managers,omitempty"` // URLs of the manager, in the order of preference
	PerHost  []Host      `json:"per_host,omitempty"` // as many as requested, the busiest first
}

// Hours says whether a robot may visit hosts now.
type Hours struct {
	Paused  time.Time `json:"paused,omitzero"` // since when paused by the robot's own site
	Held    time.Time `json:"held,omitzero"`   // since when paused by the manager's order
	Window  string    `json:"window"`
	Open    bool      `json:"open"`             // the window is open
	Changes time.Time `json:"changes,omitzero"` // when the window closes or opens
	Budget  time.Time `json:"budget,omitzero"`  // until when the limit of bytes stops the robot
}

// Collection is how far the collection has come.
type Collection struct {
	Generation int64     `json:"generation"`
	Cycle      int64     `json:"cycle"`
	Began      time.Time `json:"began"`
	Ended      time.Time `json:"ended,omitzero"`
	Coverage   *Coverage `json:"coverage,omitempty"` // of the cycle; nil: none has begun since the start
	Forecast   *Forecast `json:"forecast,omitempty"` // nil: nothing is left
}

// Assigned counts the hosts that the manager has given to the robot.
type Assigned struct {
	Hosts     int      `json:"hosts"`     // assigned
	Addresses int      `json:"addresses"` // on which those with pages left live
	Waiting   int      `json:"waiting"`   // with something left to visit
	Visited   int      `json:"visited"`   // of those, right now
	LeftOut   int      `json:"left_out"`  // that have no address, or rest because they fail
	Unreached []string `json:"unreached"` // some of those left out
}

// Stored is what the robot has collected.
type Stored struct {
	Pages    Rate  `json:"pages"`    // stored in this cycle since the start
	Bytes    Rate  `json:"bytes"`    // of the pages' answers, as transferred
	Segments int64 `json:"segments"` // bytes in open segments
	Sealing  int64 `json:"sealing"`  // bytes in segments that are being made into a batch
	Found    int   `json:"found"`    // hosts found outside the assignment that were not reported to the manager yet
	Lost     Lost  `json:"lost"`     // since the last batch
}

// Rate is a count and its growth.
type Rate struct {
	Total     int64 `json:"total"`
	PerMinute int64 `json:"per_minute"` // growth in the last minute
}

// Tap describes the consumers that read records as they are stored.
type Tap struct {
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

// Work is where the work is done.
type Work struct {
	Modules []Module `json:"modules,omitempty"`
	Hands   []Hand   `json:"hands,omitempty"` // that are connected
}

// Module is the load of a stage of the crawl: the length of its queue, its rate and its time, as
// paper 003 asks.
type Module struct {
	Name    string        `json:"name"`
	Queue   int           `json:"queue"`
	Workers int           `json:"workers"` // maximum number
	Passed  Rate          `json:"passed"`
	Busy    time.Duration `json:"busy"` // working time of all workers, in nanoseconds
	Each    time.Duration `json:"each"` // time for one item in the last minute, in nanoseconds
}

// Hand is another machine of the site that fetches for this robot (package fetch).
type Hand struct {
	Name    string    `json:"hand"`
	Address string    `json:"address"`
	Version string    `json:"version"`
	Since   time.Time `json:"since"` // when it connected
	Turns   int       `json:"turns"` // that it has now
	Most    int       `json:"most"`  // that it takes at once
	Pages   int64     `json:"pages"` // answers since it connected
	Bytes   int64     `json:"bytes"` // of them, as transferred
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

// Target is a way to the service.
type Target struct {
	Name     string    `json:"target"`
	Failures int       `json:"failures"`          // successive failures
	Again    time.Time `json:"again,omitzero"`    // not used before
	Error    string    `json:"error,omitempty"`   // last failure since the start
	Failed   time.Time `json:"failed,omitzero"`   // time of the last failure
	Answered time.Time `json:"answered,omitzero"` // time of the last batch or answer
}

// HostState is what happens to a host now.
type HostState string

// States of a host.
const (
	Visiting HostState = "visiting"
	Waits    HostState = "waiting"
	LeftOut  HostState = "left out" // it has no address, or rests because it fails
	Done     HostState = "done"     // for this cycle
)

// Host describes one host.
type Host struct {
	Name    string    `json:"host"`
	Address string    `json:"address,omitempty"`
	State   HostState `json:"state"`
	Pages   Rate      `json:"pages"`
	Bytes   Rate      `json:"bytes"`
	Left    int64     `json:"left"` // pages known and not visited
	Next    time.Time `json:"next,omitzero"`
	Why     string    `json:"why,omitempty"` // it is not visited now
}

// Lost counts, by kind, what was not collected since the last batch. The batch's manifest has the
// reasons by host.
type Lost map[string]int64
