package split

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sheaf/ingest/inbox"
)

// maxLeftOut is how many hosts of a batch may be left out after they were read. A batch with more
// goes to the quarantine. This limits the work that a hostile batch can cause.
const maxLeftOut = 10

// leftOut has the hosts of a batch that are left out, and why.
type leftOut struct {
	hosts map[string]*inbox.Refusal
	read  int // how many of these were read
}

// add adds a host that was read and failed with err. It reports false if the host cannot be left
// out, so that the whole batch fails. hosts is the number of the batch's hosts.
func (l *leftOut) add(host string, hosts int, err error) bool {
	var e *inbox.OneHost
	if !errors.As(err, &e) || l.read == maxLeftOut || len(l.hosts)+1 == hosts {
		return false
	}
	l.read++
	l.put(host, e.Refusal)
	return true
}

func (l *leftOut) put(host string, why *inbox.Refusal) {
	if l.hosts == nil {
		l.hosts = make(map[string]*inbox.Refusal)
	}
	l.hosts[host] = why
}

func (l leftOut) has(host string) bool { return l.hosts[host] != nil }

// String says which hosts are left out, and why, for the robot and the operators.
func (l leftOut) String() string {
	if len(l.hosts) == 0 {
		return ""
	}
	const few = 10
	said := make([]string, 0, few)
	for _, host := range slices.Sorted(maps.Keys(l.hosts))[:min(few, len(l.hosts))] {
		said = append(said, host+": "+l.hosts[host].Error())
	}
	text := fmt.Sprintf("%d hosts are left out, the others are taken: %s", len(l.hosts), strings.Join(said, "; "))
	if more := len(l.hosts) - len(said); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// emptyMembers returns gzip members that decode to nothing and together have size bytes, at least
// 26. They fill the place of a host that is left out, so that its pack stays a tar.gz.
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
