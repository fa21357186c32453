package crawl

import "time"

// Progress is what the current crawl is doing, or what the last one did. A robot's status shows it.
type Progress struct {
	Coverage  *Coverage    `json:"coverage,omitempty"` // of the cycle; nil: none has begun since the start
	Forecast  *Forecast    `json:"forecast,omitempty"` // nil: nothing is left
	Addresses int          `json:"addresses"`          // addresses of the hosts with pages left
	Waiting   int          `json:"waiting"`            // hosts with something left to visit
	Visited   int          `json:"visited"`            // of those, right now
	LeftOut   int          `json:"left_out"`           // hosts that have no address, or rest because they fail
	Unreached []string     `json:"unreached"`          // some of those left out
	Pages     Rate         `json:"pages"`              // stored in this cycle since the start
	Bytes     Rate         `json:"bytes"`              // of the pages' answers, as transferred
	Modules   []Module     `json:"modules,omitempty"`
	PerHost   []HostStatus `json:"per_host,omitempty"` // as many as requested, the busiest first

	Next     time.Time `json:"-"` // when a host is visited next; zero: not known
	Troubles []string  `json:"-"` // why nothing goes on; empty: it does
}

// Coverage counts what became of a cycle's pages since the robot started. Together with the counts
// by host in the batches' manifests, it covers every page that was due.
type Coverage struct {
	Pages      int64                       `json:"pages"`      // taken in full
	Unchanged  int64                       `json:"unchanged"`  // revisits
	Answers    int64                       `json:"answers"`    // archived, and no page: redirects, "not found"
	Unverified int64                       `json:"unverified"` // of all these, from servers whose certificate does not verify
	Lost       map[string]map[string]int64 `json:"lost"`       // not collected, by kind and reason
	Left       int64                       `json:"left"`       // queued and not visited
	Why        map[string]int64            `json:"why"`        // of those, by what keeps them
	Later      int64                       `json:"later"`      // known, and put off to a later cycle for want of room
}

// Rate is a count and its growth.
type Rate struct {
	Total     int64 `json:"total"`
	PerMinute int64 `json:"per_minute"` // growth in the last minute
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

// HostState is what happens to a host now.
type HostState string

// States of a host.
const (
	Visiting HostState = "visiting"
	Waits    HostState = "waiting"
	LeftOut  HostState = "left out" // it has no address, or rests because it fails
	Done     HostState = "done"     // for this cycle
)

// HostStatus describes one host of the current crawl, for the status.
type HostStatus struct {
	Name    string    `json:"host"`
	Address string    `json:"address,omitempty"`
	State   HostState `json:"state"`
	Pages   Rate      `json:"pages"`
	Bytes   Rate      `json:"bytes"`
	Left    int64     `json:"left"` // pages known and not visited
	Next    time.Time `json:"next,omitzero"`
	Why     string    `json:"why,omitempty"` // why it is not visited now
}
