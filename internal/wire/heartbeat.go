package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// PathHeartbeat is the path to which a robot posts a Heartbeat every few minutes. The answer is an
// Orders, or 204 if there is nothing to change.
const PathHeartbeat = "/v1/robots/{robot}/heartbeat"

// MaxHeartbeat is the size limit of a heartbeat, in bytes. A robot with more than MaxHeartbeatHosts
// hosts to report sends several heartbeats.
const (
	MaxHeartbeat      = 4 << 20
	MaxHeartbeatHosts = 10_000
)

// Phase is the current activity of a robot.
type Phase string

// Phases of a robot. Hosts that have not been begun count as waiting only in PhaseCollecting and
// PhaseClosed.
const (
	PhaseStarting   Phase = "starting"   // opens its hosts' queues, and does not know yet how many URLs are left
	PhaseCollecting Phase = "collecting" // visits hosts
	PhaseClosed     Phase = "closed"     // the window closed before the robot had finished
	PhaseIdle       Phase = "idle"       // nothing is left and the window is open: the robot could take more
	PhaseResting    Phase = "resting"    // nothing is left, or the robot waits for its window
	PhasePaused     Phase = "paused"     // by order of the operator or of the site
)

// Valid reports whether p is one of the phases.
func (p Phase) Valid() bool {
	switch p {
	case PhaseStarting, PhaseCollecting, PhaseClosed, PhaseIdle, PhaseResting, PhasePaused:
		return true
	}
	return false
}

// Heartbeat reports a robot's progress. Counts are of the current cycle, since the program started.
type Heartbeat struct {
	List       string `json:"list,omitempty"` // ETag of the current list
	Generation int64  `json:"generation"`     // of that list
	Version    string `json:"version"`        // of the robot's program
	Phase      Phase  `json:"phase"`
	Held       bool   `json:"held,omitempty"` // paused by the manager's order
	Cycle      int64  `json:"cycle"`
	Left       int64  `json:"left"`            // URLs known and not collected: the robot's load (paper 000)
	Pages      int64  `json:"pages"`           // collected
	Bytes      int64  `json:"bytes"`           // of the pages' answers, as transferred
	MS         int64  `json:"ms"`              // time that the transfers took, in milliseconds
	Links      int64  `json:"links,omitempty"` // found in the pages
	Spool      int64  `json:"spool"`           // bytes in batches that are not published yet

	Crowded int64 `json:"crowded,omitempty"`  // addresses whose interval has passed and that still wait for a free worker
	EveryMS int64 `json:"every_ms,omitempty"` // between two heartbeats; 0: not known

	Clock *Clock `json:"clock,omitempty"` // difference of the robot's clock; nil: not measured

	// Hosts are the hosts whose state has changed since the last answered heartbeat, or whose Left
	// has changed much. If All is set, they are all hosts that have been begun, and replace earlier
	// reports.
	Hosts map[string]HostProgress `json:"hosts,omitempty"`
	All   bool                    `json:"all,omitempty"`

	// Unanswered says for hosts why the last visit got no answer, such as dns or timeout, or "" if
	// the host answers again. It has the hosts whose reason has changed since the last answered
	// heartbeat.
	Unanswered map[string]string `json:"unanswered,omitempty"`

	Probes map[string]ProbeResult `json:"probes,omitempty"` // results of the probes that the manager asked for, by host
	Taken  []string               `json:"taken,omitempty"`  // hosts of Orders.Visits that the robot has accepted

	// Signing has the keys by which the robot signs its requests: the current key and the next one.
	Signing []SigningKey `json:"signing,omitempty"`

	Contact  string             `json:"contact,omitempty"`  // URL or mail address of the people at the robot's site
	Troubles map[Trouble]string `json:"troubles,omitempty"` // troubles of RobotTroubles that the robot has, with details
}

// Trouble is a kind of fault that keeps a robot from its work.
type Trouble string

// Troubles. If a comment names nobody who finds the trouble out, the robot itself does.
const (
	TroubleSilent Trouble = "silent" // its heartbeats stay away; the manager finds out
	TroubleBatch  Trouble = "batch"  // one of its batches does not get through; the service finds out
	TroubleDisk   Trouble = "disk"   // there is too little space, so it collects nothing
	TroubleUpload Trouble = "upload" // the service does not take its batches
	TroubleHosts  Trouble = "hosts"  // half of its hosts or more do not answer
	TroubleClock  Trouble = "clock"  // its clock is wrong; the manager finds out, by Heartbeat.Clock
	TroubleKey    Trouble = "key"    // it does not know the newest of the service's keys; the manager finds out
	TroubleOld    Trouble = "old"    // it runs an old release; the manager finds out
)

// Troubles returns all troubles, the gravest first.
func Troubles() []Trouble {
	return []Trouble{TroubleSilent, TroubleDisk, TroubleUpload, TroubleBatch, TroubleHosts, TroubleClock, TroubleKey, TroubleOld}
}

// RobotTroubles returns the troubles that a robot itself reports.
func RobotTroubles() []Trouble { return []Trouble{TroubleDisk, TroubleUpload, TroubleHosts} }

// Limits for texts in a heartbeat, in bytes.
const (
	MaxContact = 500
	MaxTrouble = 500 // also for ProbeResult.Failed
	MaxVersion = 128
)

// MaxSigning is the limit for the keys of Heartbeat.Signing.
const MaxSigning = 2

// MaxProbes is the limit for the results of probes in one heartbeat.
const MaxProbes = 1000

// HeaderPage has the URL of the robot's page, in the answer to a heartbeat. It may be a path at the
// manager.
const HeaderPage = "Sheaf-Page"

// HostState is the robot's progress with a host in this cycle. A host without a report has not been
// begun.
type HostState string

// States of a host within a cycle.
const (
	HostBegun HostState = "begun"
	HostDone  HostState = "done" // nothing is left, or the host cannot be reached
)

// HostProgress is the state of a host in this cycle, and its cost so far.
type HostProgress struct {
	State HostState `json:"state"`
	Pages int64     `json:"pages,omitempty"`
	Bytes int64     `json:"bytes,omitempty"`
	MS    int64     `json:"ms,omitempty"`
	Left  int64     `json:"left,omitempty"` // URLs known and not collected

	Status int   `json:"status,omitempty"` // HTTP status of the last visit's answer; 0: no answer, or not known
	AgoMS  int64 `json:"ago_ms,omitempty"` // ms since the last visit, so that a wrong clock does not matter; 0: not known
}

// ProbeResult is a robot's measurement of a host: the bytes that it received, and the milliseconds
// that this took. If it could not fetch anything, Failed says why.
type ProbeResult struct {
	Files  int64  `json:"files"`
	Bytes  int64  `json:"bytes"`
	MS     int64  `json:"ms"`
	Failed string `json:"failed,omitempty"`
}

// Directive is an order to a robot.
type Directive string

// Values of Orders.Directives.
const (
	DirectiveRestart   Directive = "restart"   // P4: seal the batch, drop the list and fetch it again
	DirectiveRebalance Directive = "rebalance" // the list has changed: fetch it
	DirectivePause     Directive = "pause"     // begin no more pages, but continue to upload
	DirectiveResume    Directive = "resume"
	DirectiveUpgrade   Directive = "upgrade" // look for a new release now
	DirectiveReport    Directive = "report"  // report all hosts with the next heartbeat
)

// Orders are the answer to a heartbeat.
type Orders struct {
	List       string      `json:"list"` // ETag of the robot's current list
	Directives []Directive `json:"directives,omitempty"`
	Probes     []ProbeAsk  `json:"probes,omitempty"`

	// Visits are the robot's hosts that an operator wants visited now, at most MaxVisits. They are
	// repeated until a heartbeat lists them in Taken.
	Visits []string `json:"visits,omitempty"`
}

// MaxVisits is the limit for the Visits of one answer.
const MaxVisits = 1000

// ProbeAsk asks a robot to measure a host. The robot fetches up to Files files, beginning with URL,
// at the usual interval and as robots.txt allows (paper 001, 4.2.5). For ForMS from the sending of
// the answer, other robots do not visit the host, nor its address, if that is known.
type ProbeAsk struct {
	URL     string `json:"url"`
	Files   int64  `json:"files"`
	ForMS   int64  `json:"for_ms,omitempty"` // ms that the robot has; 0: without end
	Address string `json:"address,omitempty"`
}

// MaxProbeFiles is the limit for the files of one probe (paper 001, 4.2.5).
const MaxProbeFiles = 50

// HeaderLease is a header of the answers to a list and to a heartbeat. It has the robot's lease:
// for how many milliseconds the robot may visit the hosts of the list that it has after the answer,
// or NoLease if there is no end. The time counts from the sending of the request. Without the
// header the lease is not renewed.
const (
	HeaderLease = "Sheaf-Lease"
	NoLease     = "none"
)

// Lease is the value of HeaderLease. The zero value renews no lease.
type Lease struct {
	Renewed bool
	For     time.Duration // 0: without end
}

// String returns the header's value. l.Renewed must be true.
func (l Lease) String() string {
	if l.For == 0 {
		return NoLease
	}
	return strconv.FormatInt(l.For.Milliseconds(), 10)
}

// MaxLease is the limit for a lease.
const MaxLease = 10 * 365 * 24 * time.Hour

// ParseLease parses the header's value, which is empty if there is no such header.
func ParseLease(value string) (Lease, error) {
	switch value {
	case "":
		return Lease{}, nil
	case NoLease:
		return Lease{Renewed: true}, nil
	}
	ms, err := strconv.ParseInt(value, 10, 64)
	if err != nil || ms <= 0 || ms > MaxLease.Milliseconds() {
		return Lease{}, fmt.Errorf("%s %q is no number of milliseconds from 1 to %d", HeaderLease, value, MaxLease.Milliseconds())
	}
	return Lease{Renewed: true, For: time.Duration(ms) * time.Millisecond}, nil
}

// LeaseMargin returns how long before the end of a lease the robot begins its last visit. It is
// also how long after the end the manager waits before it gives the robot's hosts to others. It
// allows for clocks that differ in speed and for a request that is under way.
func LeaseMargin(lease time.Duration) time.Duration { return min(lease/10, time.Minute) }

// PathWatches is the path from which a robot gets its WatchList, the pages of its hosts that
// consumers watch. By the ETag, a robot does not fetch an unchanged list again.
const PathWatches = "/v1/robots/{robot}/watches"

// MaxWatches is the limit for a WatchList that a robot accepts, in bytes.
const MaxWatches = 64 << 20

// Kinds of watches.
const (
	WatchURL    = "url"
	WatchPrefix = "prefix"
	WatchHost   = "host"
)

// WatchOrder is a page, a URL prefix or a host that consumers watch. A robot visits it at least
// once in every cycle, more often if it changes more often, and delivers a change at once.
type WatchOrder struct {
	Kind string `json:"kind"`
	Host string `json:"host"`
	URL  string `json:"url"` // the answer is stored under this URL

	// Address and Body are only set for a form: the URL to which the robot posts, and the posted
	// fields. The answer has a URL of its own.
	Address string `json:"address,omitempty"`
	Body    string `json:"body,omitempty"`
	Media   string `json:"media,omitempty"`

	// Once, unless 0, asks for one visit as soon as possible, and for its batch at once. Each
	// further request makes the number larger. A robot that has made the visit waits for a larger
	// number.
	Once int64 `json:"once,omitempty"`
}

// WatchList has all WatchOrders for one robot's hosts, each once.
type WatchList struct {
	Watches []WatchOrder `json:"watches"`
}

// Covers reports whether the order watches a URL, which must be on the order's host.
func (o *WatchOrder) Covers(url string) bool {
	switch o.Kind {
	case WatchURL:
		return url == o.URL
	case WatchPrefix:
		return strings.HasPrefix(url, o.URL)
	}
	return o.Kind == WatchHost
}
