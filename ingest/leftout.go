package ingest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// excess is the refusal of a host of which nothing is wrong but how much it is: see package limits.
// The rest of its batch can be taken.
type excess struct{ *Refusal }

func (e *excess) Unwrap() error { return e.Refusal }

// maxLeftOut is how many hosts of a batch may be left out. A batch with more goes to the
// quarantine, so that a hostile one costs no more than these.
const maxLeftOut = 10

// leftOut lists the hosts of a batch that are not taken.
type leftOut []leftHost

type leftHost struct {
	host string
	*Refusal
}

// add reports whether err allows to leave the host out and take the others, and notes it then.
func (l *leftOut) add(host string, hosts int, err error) bool {
	var e *excess
	if !errors.As(err, &e) || len(*l) == maxLeftOut || len(*l)+1 == hosts {
		return false
	}
	*l = append(*l, leftHost{host, e.Refusal})
	return true
}

func (l leftOut) has(host string) bool {
	for _, left := range l {
		if left.host == host {
			return true
		}
	}
	return false
}

// String is what the robot and operators are told.
func (l leftOut) String() string {
	if len(l) == 0 {
		return ""
	}
	hosts := make([]string, len(l))
	for n, left := range l {
		hosts[n] = left.host + ": " + left.Refusal.Error()
	}
	return fmt.Sprintf("%d hosts are left out, the others are taken: %s", len(l), strings.Join(hosts, "; "))
}

// emptyMembers returns gzip members of size bytes in all that decode to nothing. They fill the
// place of a host that is left out, so that the pack around it stays a tar.gz. There is no filler
// below 26 bytes.
func emptyMembers(size int64) []byte {
	const (
		fixed = 10 + 2 + 4 + 2 + 8 // header, XLEN, a field's head, an empty block, trailer
		most  = 1 << 15
	)
	b := make([]byte, 0, size)
	for left := size; left > 0; left = size - int64(len(b)) {
		n := left
		if n > most {
			n = min(most, left-fixed)
		}
		field := int(n) - fixed
		b = append(b, "\x1f\x8b\x08\x04\x00\x00\x00\x00\x00\xff"...)
		b = binary.LittleEndian.AppendUint16(b, uint16(4+field))
		b = append(b, 'W', '0')
		b = binary.LittleEndian.AppendUint16(b, uint16(field))
		b = append(b, make([]byte, field)...)
		b = append(append(b, 3, 0), make([]byte, 8)...)
	}
	return b
}
