package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// HeaderAccept is a header of a robot's request for its list (P1). Its value AcceptAdditions says
// that the robot understands Sheaf's additions to the paper's form. Without it the lines have no
// third field, and the list leaves out hosts that the robot must visit only in part, or not yet.
const (
	HeaderAccept    = "Sheaf-Accept"
	AcceptAdditions = "additions"
)

// Share is a robot's share of a host that several robots visit. The zero value means that one robot
// visits the host. The robots keep the host's interval together: each visits the host only at its
// own turns, every Of intervals (see robotd's rota).
type Share struct {
	Part  int  `json:"part"`  // number of this robot, from 0
	Of    int  `json:"of"`    // number of robots; 0 or 1: this one alone
	Split bool `json:"split"` // each robot visits only its own URLs; otherwise each visits all of them (a copy)
}

// MaxShares is the limit for the robots of one host.
const MaxShares = 64

// Several reports whether other robots also have the host.
func (s Share) Several() bool { return s.Of > 1 }

// Has reports whether this robot must visit a URL, given in the robots' canonical form. In a split
// host a URL always belongs to the same robot: its number is the first eight bytes of the URL's
// SHA-256 modulo the number of robots.
func (s Share) Has(url string) bool {
	if !s.Split || s.Of < 2 {
		return true
	}
	sum := sha256.Sum256([]byte(url))
	return int(binary.BigEndian.Uint64(sum[:])%uint64(s.Of)) == s.Part
}

func (s Share) valid() bool { return s.Of >= 2 && s.Of <= MaxShares && s.Part >= 0 && s.Part < s.Of }

func (s Share) word() string {
	if s.Split {
		return "split"
	}
	return "copy"
}

// extra returns the third field of a host list's line: the words "split PART/OF", "copy PART/OF",
// "depth N", "wait 1", "interval MS", "shortest MS", "run PAGES", "omit PATH" and "handover
// SHA256", separated by spaces. It has the words for what the line says; parseExtra ignores unknown
// words.
func (l HostLine) extra() string {
	var words []string
	if l.Share.Several() {
		words = append(words, fmt.Sprintf("%s %d/%d", l.Share.word(), l.Share.Part, l.Share.Of))
	}
	if l.Depth > 0 {
		words = append(words, "depth "+strconv.Itoa(l.Depth))
	}
	if l.Wait {
		words = append(words, "wait 1")
	}
	if l.Interval > 0 {
		words = append(words, "interval "+strconv.FormatInt(l.Interval.Milliseconds(), 10))
	}
	if l.Shortest > 0 {
		words = append(words, "shortest "+strconv.FormatInt(l.Shortest.Milliseconds(), 10))
	}
	if l.RunPages > 0 {
		words = append(words, "run "+strconv.Itoa(l.RunPages))
	}
	if l.Omit != "" {
		words = append(words, "omit "+l.Omit)
	}
	if l.Handover != "" {
		words = append(words, "handover "+l.Handover)
	}
	return strings.Join(words, " ")
}

func (l *HostLine) parseExtra(field string) error {
	words := strings.Fields(field)
	for i := 0; i+1 < len(words); i += 2 {
		name, value := words[i], words[i+1]
		switch name {
		case "split", "copy":
			part, of, _ := strings.Cut(value, "/")
			p, errPart := strconv.Atoi(part)
			n, errOf := strconv.Atoi(of)
			l.Share = Share{Part: p, Of: n, Split: name == "split"}
			if errPart != nil || errOf != nil || !l.Share.valid() {
				return fmt.Errorf("%s %q must be PART/OF with at most %d parts", name, value, MaxShares)
			}
		case "depth":
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 || n > 1<<20 {
				return fmt.Errorf("depth %q is not a number of links", value)
			}
			l.Depth = n
		case "wait":
			if value != "1" {
				return fmt.Errorf("wait %q must be 1", value)
			}
			l.Wait = true
		case "interval", "shortest":
			ms, err := strconv.ParseInt(value, 10, 64)
			if err != nil || ms < LeastInterval.Milliseconds() || ms > MostInterval.Milliseconds() {
				return fmt.Errorf("%s %q is not between %d and %d ms", name, value, LeastInterval.Milliseconds(), MostInterval.Milliseconds())
			}
			if d := time.Duration(ms) * time.Millisecond; name == "interval" {
				l.Interval = d
			} else {
				l.Shortest = d
			}
		case "run":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > MostRunPages {
				return fmt.Errorf("run %q is not between 1 and %d pages", value, MostRunPages)
			}
			l.RunPages = n
		case "omit":
			if !strings.HasPrefix(value, "/") || len(value) > MaxOmit {
				return fmt.Errorf("omit %.100q is no path of at most %d bytes", value, MaxOmit)
			}
			l.Omit = value
		case "handover":
			if !ValidDigest(value) {
				return fmt.Errorf("handover %q is no digest", value)
			}
			l.Handover = value
		}
	}
	return nil
}
