package split

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sheaf/ingest/verify"
)

// maxLeftOut is how many hosts of a batch may be left out. A batch with more goes to the
// quarantine, so a hostile batch costs no more than these.
const maxLeftOut = 10

// leftOut lists the hosts of a batch that are not taken.
type leftOut []leftHost

type leftHost struct {
	host string
	*verify.Refusal
}

// add reports whether the host can be left out because of err and the others taken. If so, it adds
// the host. hosts is how many the batch has.
func (l *leftOut) add(host string, hosts int, err error) bool {
	var e *verify.Excess
	if !errors.As(err, &e) || len(*l) == maxLeftOut || len(*l)+1 == hosts {
		return false
	}
	*l = append(*l, leftHost{host, e.Refusal})
	return true
}

func (l leftOut) has(host string) bool {
	return slices.ContainsFunc(l, func(left leftHost) bool { return left.host == host })
}

// String says for the robot and the operators which hosts are left out, and why.
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

// emptyMembers returns gzip members that decode to nothing and have size bytes together, at least
// 26. They fill the place of a host that is left out, so that the pack around it stays a tar.gz.
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
