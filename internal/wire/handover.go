package wire

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"time"
)

// Paths of hand-overs. To the first, a robot posts the file of a host that it has lost. From the
// second, it gets the file of a host that it has been given; the ID is that of Handover.ID.
const (
	PathHandovers = "/v1/robots/{robot}/handovers"
	PathHandover  = "/v1/robots/{robot}/handovers/{id}"
)

// Limits of a hand-over, in bytes: of the file, of its head, and of the body when it is inflated. A
// host with more begins anew at its next robot.
const (
	MaxHandover      = 256 << 20
	MaxHandoverHead  = 2 << 20
	MaxHandoverPlain = 1 << 30
)

// HandoverFormat is the version of the file.
const HandoverFormat = 1

// Handover is the head of a hand-over, the file by which a robot passes its knowledge of a host on
// to the host's next robot. HANDOVER.md describes the file. Times are durations since the file was
// made, because the robots' clocks may differ.
type Handover struct {
	Format     int       `json:"format"`
	Robot      string    `json:"robot"`        // robot that has made the file
	To         string    `json:"to,omitempty"` // robot that gets it; the service adds this
	Host       string    `json:"host"`
	Generation int64     `json:"generation"` // generation of the list by which the host was collected
	Made       time.Time `json:"made"`
	Queued     bool      `json:"queued,omitempty"` // the known pages of earlier cycles are in the queue

	Rest    HandoverRest    `json:"rest"`              // when the host may be visited again
	At      HandoverRest    `json:"at"`                // when the host's address may be visited again
	Address string          `json:"address,omitempty"` // address at which the robot has visited the host; empty: not known
	Rules   []HandoverRules `json:"rules,omitempty"`
	Hours   *HandoverHours  `json:"hours,omitempty"`

	Size   int64  `json:"size"`   // of the body, in bytes
	SHA256 string `json:"sha256"` // of the body
}

// HandoverRest says when a host or an address may be visited again.
type HandoverRest struct {
	WaitMS  int64 `json:"wait_ms,omitempty"`  // time until the next visit
	EveryMS int64 `json:"every_ms,omitempty"` // least interval between visits; 0: the usual one
}

// HandoverRules is a robots.txt, and how long it may be used.
type HandoverRules struct {
	Scheme string `json:"scheme"`
	Text   []byte `json:"text"`
	ForMS  int64  `json:"for_ms"`
}

// HandoverHours is the speed of the host's server by the hour of the day.
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

// Check returns an error that says what is wrong with the head.
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
	case h.Size < 0 || h.Size > MaxHandover || !ValidDigest(h.SHA256):
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

// ID returns the name of the hand-over in lists: the digest of its host and its body. The digest of
// the body alone may not be unique, since the bodies of little-known hosts may be equal.
func (h *Handover) ID() string { return Digest([]byte(h.Host + " " + h.SHA256)) }

// File returns the part of the file before the body: the signed head and LF. size and sha256, in
// hexadecimal, are those of the body; File stores them in the head.
func (h *Handover) File(size int64, sha256 string, key ed25519.PrivateKey) (head []byte, err error) {
	h.Size, h.SHA256 = size, sha256
	if size > MaxHandover {
		return nil, fmt.Errorf("hand-over of %s: %w", h.Host, ErrTooLarge)
	}
	if err := h.Check(); err != nil {
		return nil, fmt.Errorf("hand-over of %s: %w", h.Host, err)
	}
	if head, err = seal(h, key); err != nil {
		return nil, err
	}
	if len(head) > MaxHandoverHead || int64(len(head))+1+size > MaxHandover {
		return nil, fmt.Errorf("hand-over of %s: %w", h.Host, ErrTooLarge)
	}
	return append(head, '\n'), nil
}

// OpenHandover reads the head of a file, checks that one of the keys signed it, and returns the
// head with a reader of the body. If none of the keys did, it returns ErrSignature. The reader
// returns io.EOF only if the body has the size and digest in the head.
func OpenHandover(file io.Reader, keys ...ed25519.PublicKey) (*Handover, io.Reader, error) {
	in := bufio.NewReader(file)
	var head []byte
	for {
		part, err := in.ReadSlice('\n')
		head = append(head, part...)
		if len(head) > MaxHandoverHead+1 {
			return nil, nil, fmt.Errorf("hand-over: its head has more than %d bytes: %w", MaxHandoverHead, ErrTooLarge)
		}
		if err == nil {
			break
		}
		if err != bufio.ErrBufferFull {
			return nil, nil, fmt.Errorf("hand-over: no whole head: %w", err)
		}
	}
	h := new(Handover)
	if err := open(bytes.TrimSuffix(head, []byte("\n")), h, keys...); err != nil {
		return nil, nil, fmt.Errorf("hand-over: %w", err)
	}
	if err := h.Check(); err != nil {
		return nil, nil, fmt.Errorf("hand-over: %w", err)
	}
	return h, &handoverBody{in: in, h: h, sum: sha256.New()}, nil
}

// handoverBody reads a body, and checks it at its end.
type handoverBody struct {
	in   io.Reader
	h    *Handover
	sum  hash.Hash
	size int64
}

func (b *handoverBody) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	b.size += int64(n)
	b.sum.Write(p[:n])
	if b.size > b.h.Size || err == io.EOF && (b.size != b.h.Size || hex.EncodeToString(b.sum.Sum(nil)) != b.h.SHA256) {
		return 0, fmt.Errorf("hand-over of %s: its body of %d bytes is not what the head says", b.h.Host, b.size)
	}
	return n, err
}
