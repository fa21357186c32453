package wire

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"
)

// Paths of hand-overs: a robot posts the file of a host that it has lost to the first, and gets the
// file of a host that it has got from the second, where the ID is the body's digest.
const (
	PathHandovers = "/v1/robots/{robot}/handovers"
	PathHandover  = "/v1/robots/{robot}/handovers/{id}"
)

// Limits of a hand-over, in bytes: of the file, of its head, and of the body when it is inflated. A
// host with more begins anew at its next robot.
const (
	MaxHandover      = 16 << 20
	MaxHandoverHead  = 2 << 20
	MaxHandoverPlain = 256 << 20
)

// HandoverFormat is the version of the file.
const HandoverFormat = 1

// Handover is the head of a hand-over: the file with which a robot passes on what it knows of a host
// to the host's next robot. HANDOVER.md describes the file. Times are durations from when it was made,
// because the robots' clocks may differ.
type Handover struct {
	Format     int       `json:"format"`
	Robot      string    `json:"robot"`        // that has made it
	To         string    `json:"to,omitempty"` // robot that gets it; the service adds this
	Host       string    `json:"host"`
	Generation int64     `json:"generation"` // of the list by which it was collected
	Made       time.Time `json:"made"`
	Queued     bool      `json:"queued,omitempty"` // the known pages of earlier cycles are in the queue

	Rest    HandoverRest    `json:"rest"`              // of the host
	At      HandoverRest    `json:"at"`                // of its address
	Address string          `json:"address,omitempty"` // where the robot has visited it; empty: not known
	Rules   []HandoverRules `json:"rules,omitempty"`
	Hours   *HandoverHours  `json:"hours,omitempty"`

	Size   int64  `json:"size"`   // of the body, in bytes
	SHA256 string `json:"sha256"` // of the body
}

// HandoverRest says when a host or an address may be visited again.
type HandoverRest struct {
	WaitMS  int64 `json:"wait_ms,omitempty"`  // not before so long
	EveryMS int64 `json:"every_ms,omitempty"` // least interval; 0: the usual one
}

// HandoverRules is a robots.txt. It may be used for so long.
type HandoverRules struct {
	Scheme string `json:"scheme"`
	Text   []byte `json:"text"`
	ForMS  int64  `json:"for_ms"`
}

// HandoverHours is how fast the host's server was, by the hour of the day.
type HandoverHours struct {
	Day    int         `json:"day"`    // number of the day of the last observation
	Speed  [24]float64 `json:"speed"`  // bytes per second
	Weight [24]float64 `json:"weight"` // number of observations
}

// longestRest is the limit for all durations of a hand-over.
const longestRest = 24 * time.Hour

func (r HandoverRest) valid() bool {
	most := longestRest.Milliseconds()
	return r.WaitMS >= 0 && r.WaitMS <= most && r.EveryMS >= 0 && r.EveryMS <= most
}

// Check returns what is wrong with the head.
func (h *Handover) Check() error {
	switch {
	case h.Format != HandoverFormat:
		return fmt.Errorf("format %d; this program knows %d", h.Format, HandoverFormat)
	case !ValidRobotName(h.Robot) || h.To != "" && !ValidRobotName(h.To):
		return fmt.Errorf("robots %q and %q", h.Robot, h.To)
	case h.Generation < 0:
		return fmt.Errorf("generation %d", h.Generation)
	case !h.Rest.valid() || !h.At.valid():
		return fmt.Errorf("rest %+v, at its address %+v: want 0 to %d ms", h.Rest, h.At, longestRest.Milliseconds())
	case len(h.Rules) > 2:
		return fmt.Errorf("%d robots.txt", len(h.Rules))
	case h.Size < 0 || h.Size > MaxHandover || !validDigest(h.SHA256):
		return fmt.Errorf("body of %d bytes with the digest %q", h.Size, h.SHA256)
	}
	if _, host, err := NormalizeURL("http://" + h.Host + "/"); err != nil || host != h.Host {
		return fmt.Errorf("host %q", h.Host)
	}
	for _, r := range h.Rules {
		if r.Scheme != "http" && r.Scheme != "https" || r.ForMS < 0 || r.ForMS > longestRest.Milliseconds() {
			return fmt.Errorf("robots.txt of scheme %q for %d ms", r.Scheme, r.ForMS)
		}
	}
	if h.Hours != nil {
		for i := range h.Hours.Speed {
			if !(h.Hours.Speed[i] >= 0) || !(h.Hours.Weight[i] >= 0) {
				return fmt.Errorf("hour %d: %g bytes a second, %g observations", i, h.Hours.Speed[i], h.Hours.Weight[i])
			}
		}
	}
	return nil
}

// ID names the hand-over in lists: the digest of its host and its body. Bodies alone may be the same,
// such as those of hosts of which little is known.
func (h *Handover) ID() string { return Digest([]byte(h.Host + " " + h.SHA256)) }

// File returns the file: the signed head, LF, and the body. It completes the head.
func (h *Handover) File(body []byte, key ed25519.PrivateKey) ([]byte, error) {
	h.Size, h.SHA256 = int64(len(body)), Digest(body)
	if err := h.Check(); err != nil {
		return nil, fmt.Errorf("hand-over of %s: %w", h.Host, err)
	}
	head, err := seal(h, key)
	if err != nil {
		return nil, err
	}
	if len(head) > MaxHandoverHead || len(head)+1+len(body) > MaxHandover {
		return nil, fmt.Errorf("hand-over of %s: %w", h.Host, ErrTooLarge)
	}
	return append(append(head, '\n'), body...), nil
}

// OpenHandover checks the file against the key of its signer, and returns head and body. It fails
// with ErrSignature if the signature is not the key's.
func OpenHandover(file []byte, key ed25519.PublicKey) (*Handover, []byte, error) {
	if len(key) == 0 {
		return nil, nil, ErrSignature
	}
	if len(file) > MaxHandover {
		return nil, nil, fmt.Errorf("hand-over: %w", ErrTooLarge)
	}
	head, body, ok := bytes.Cut(file, []byte("\n"))
	if !ok || len(head) > MaxHandoverHead {
		return nil, nil, errors.New("hand-over: no whole head")
	}
	h := new(Handover)
	if err := open(head, key, h); err != nil {
		return nil, nil, fmt.Errorf("hand-over: %w", err)
	}
	if err := h.Check(); err != nil {
		return nil, nil, fmt.Errorf("hand-over: %w", err)
	}
	if int64(len(body)) != h.Size || Digest(body) != h.SHA256 {
		return nil, nil, fmt.Errorf("hand-over of %s: its body of %d bytes is not what the head says", h.Host, len(body))
	}
	return h, body, nil
}
