package wire

// PathHeartbeat is where a robot says every few minutes how far it is: POST, a Heartbeat.
// The answer is 204 where everything is as the robot said, else an Orders.
const PathHeartbeat = "/v1/robots/{robot}/heartbeat"

// MaxHeartbeat is the largest heartbeat, in bytes, that a manager takes. A robot with more
// to tell than MaxHeartbeatHosts hosts sends several.
const (
	MaxHeartbeat      = 4 << 20
	MaxHeartbeatHosts = 10_000
)

// Phase is what a robot is doing.
type Phase string

// Phases of a robot. Hosts that have not been begun count as waiting in
// PhaseCollecting and PhaseClosed only.
const (
	PhaseStarting   Phase = "starting"   // it opens its hosts' queues, and cannot say yet what is left
	PhaseCollecting Phase = "collecting" // it visits hosts
	PhaseClosed     Phase = "closed"     // its window has closed before it was done
	PhaseIdle       Phase = "idle"       // it has nothing left, and its window is open: it would take more
	PhaseResting    Phase = "resting"    // it has nothing left, or waits for its window
	PhasePaused     Phase = "paused"     // by the operator's order, or its site's
)

// Valid reports whether p is one of the phases.
func (p Phase) Valid() bool {
	switch p {
	case PhaseStarting, PhaseCollecting, PhaseClosed, PhaseIdle, PhaseResting, PhasePaused:
		return true
	}
	return false
}

// Heartbeat says how far a robot is. Counts are of its present cycle and since its
// program started.
type Heartbeat struct {
	List       string `json:"list,omitempty"` // ETag of the list that it works by
	Generation int64  `json:"generation"`     // of that list
	Version    string `json:"version"`        // of its program
	Phase      Phase  `json:"phase"`
	Held       bool   `json:"held,omitempty"` // it is paused by the manager's order
	Cycle      int64  `json:"cycle"`
	Left       int64  `json:"left"`  // URLs known and not collected: the load of paper 000
	Pages      int64  `json:"pages"` // collected
	Bytes      int64  `json:"bytes"` // of their answers on the wire
	MS         int64  `json:"ms"`    // that their transfer took
	Spool      int64  `json:"spool"` // bytes in batches that are not published yet

	// Hosts are those that have gone on to another state since the last heartbeat that was
	// answered; with All they are all that have been begun, and replace what was told before.
	Hosts map[string]HostProgress `json:"hosts,omitempty"`
	All   bool                    `json:"all,omitempty"`

	Probes map[string]ProbeResult `json:"probes,omitempty"` // by host, what the manager asked to have measured
	Taken  []string               `json:"taken,omitempty"`  // hosts of Orders.Visits that the robot has noted
}

// HostState is how far a robot is with a host in this cycle. A host that is not told of
// has not been begun.
type HostState string

// States of a host within a cycle.
const (
	HostBegun HostState = "begun"
	HostDone  HostState = "done" // nothing is left of it, or it cannot be reached
)

// HostProgress is what a host has cost so far.
type HostProgress struct {
	State HostState `json:"state"`
	Pages int64     `json:"pages,omitempty"`
	Bytes int64     `json:"bytes,omitempty"`
	MS    int64     `json:"ms,omitempty"`
}

// ProbeResult is what a robot measured of its distance to a host: so many bytes came in
// so many milliseconds. With nothing fetched, Failed says why.
type ProbeResult struct {
	Files  int64  `json:"files"`
	Bytes  int64  `json:"bytes"`
	MS     int64  `json:"ms"`
	Failed string `json:"failed,omitempty"`
}

// Directive is one thing that a robot is to do.
type Directive string

// Directives.
const (
	DirectiveRestart   Directive = "restart"   // P4: seal what there is, drop the list and fetch it anew
	DirectiveRebalance Directive = "rebalance" // the list has changed: fetch it
	DirectivePause     Directive = "pause"     // begin no further page; go on uploading
	DirectiveResume    Directive = "resume"
	DirectiveUpgrade   Directive = "upgrade" // look for a release now
	DirectiveReport    Directive = "report"  // tell all hosts with the next heartbeat
)

// Orders answer a heartbeat.
type Orders struct {
	List       string      `json:"list"` // ETag of the robot's list as it is now
	Directives []Directive `json:"directives,omitempty"`
	Probes     []ProbeAsk  `json:"probes,omitempty"`

	// Visits are hosts of the robot's that an operator wants visited now, at most MaxVisits. They are
	// repeated until a heartbeat has them in Taken.
	Visits []string `json:"visits,omitempty"`
}

// MaxVisits is how many hosts an answer to a heartbeat orders to be visited at most.
const MaxVisits = 1000

// ProbeAsk asks a robot to measure its distance to a host, by fetching up to Files files from
// URL on, at the usual interval and as robots.txt allows (paper 001, 4.2.5).
type ProbeAsk struct {
	URL   string `json:"url"`
	Files int64  `json:"files"`
}

// MaxProbeFiles is how many files a probe fetches at most (paper 001, 4.2.5).
const MaxProbeFiles = 50
