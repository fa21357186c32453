package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// HeaderAccept is what a robot's request of its list (P1) says that its program understands besides
// the paper's form: AcceptShares. Who does not say so is given lines without a third field, and no host of
// which it is to visit a part only.
const (
	HeaderAccept = "Sheaf-Accept"
	AcceptShares = "shares"
)

// Share says that a host is with several robots at once. The zero value is a host that is one
// robot's. The robots together keep to the host's interval: robot number Part of Of comes at its own
// times only (see robotd's rota), every Of intervals.
type Share struct {
	Part  int  `json:"part"`  // this robot's number, from 0
	Of    int  `json:"of"`    // so many robots have the host; 0 or 1: this one alone
	Split bool `json:"split"` // each visits only the URLs that are its own; else each visits all (a copy)
}

// MaxShares is how many robots can have one host.
const MaxShares = 64

// Several reports whether other robots have the host too.
func (s Share) Several() bool { return s.Of > 1 }

// Has reports whether a URL, in the canonical form of the robots, is this robot's to visit. The same URL
// is always the same robot's: by the first eight bytes of its SHA-256, modulo the number of robots.
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

// extra is the third field of a host list's line: words "split PART/OF", "copy PART/OF" and
// "depth N", separated by blanks. Words that are not known are passed over.
func (l HostLine) extra() string {
	var words []string
	if l.Share.Several() {
		words = append(words, fmt.Sprintf("%s %d/%d", l.Share.word(), l.Share.Part, l.Share.Of))
	}
	if l.Depth > 0 {
		words = append(words, "depth "+strconv.Itoa(l.Depth))
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
				return fmt.Errorf("%s %q is no part of at most %d", name, value, MaxShares)
			}
		case "depth":
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 || n > 1<<20 {
				return fmt.Errorf("depth %q is not a number of links", value)
			}
			l.Depth = n
		}
	}
	return nil
}
