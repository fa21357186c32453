package foreign

import (
	"archive/tar"
	"cmp"
	"fmt"
	"strings"
)

// Limits say how large one file may become when it is expanded. Whatever they say, a file may
// expand to no more than 200 bytes for each of its own, and to 256 MiB in any case.
type Limits struct {
	Bytes   int64 // inflated, with the holes of sparse files, or of bodies once they are decoded; 0 is DefaultBytes
	Entries int64 // of a tar, or records of a WARC; 0 is DefaultEntries
}

// What Limits are where nothing else is said.
const (
	DefaultBytes   = 256 << 30
	DefaultEntries = 10_000_000
)

// What a file may expand to, at most: so much for each of its bytes, and so much in any case.
const (
	maxRatio = 200
	minLimit = 256 << 20
)

// meter counts what a file expands to.
type meter struct {
	most        int64
	why         string // most is what it is
	mostEntries int64
	inflated    int64
	content     int64
	entries     int64
}

func newMeter(limits Limits, size int64) *meter {
	m := &meter{most: cmp.Or(limits.Bytes, DefaultBytes), why: "import.max_bytes", mostEntries: cmp.Or(limits.Entries, DefaultEntries)}
	if ratio := max(size, minLimit/maxRatio) * maxRatio; ratio < m.most {
		m.most, m.why = ratio, fmt.Sprintf("%d for each of its own", maxRatio)
	}
	return m
}

func (m *meter) over() error {
	if m.inflated > m.most || m.content > m.most {
		return fmt.Errorf("the file expands to more than %d bytes, the limit (%s)", m.most, m.why)
	}
	return nil
}

// read counts bytes of the inflated file.
func (m *meter) read(n int64) error {
	m.inflated += n
	return m.over()
}

// made counts bytes that come of the file and need not be in it: those of sparse files, and of
// decoded bodies.
func (m *meter) made(n int64) error {
	m.content += min(n, m.most+1) // the sum cannot overflow
	return m.over()
}

// room is how many such bytes may still come.
func (m *meter) room() int64 { return m.most - m.content }

// entry counts one more.
func (m *meter) entry() error {
	if m.entries++; m.entries > m.mostEntries {
		return fmt.Errorf("the file holds more than %d entries, the limit (import.max_entries)", m.mostEntries)
	}
	return nil
}

// sparse reports whether a file in a tar may have holes, which are not in the tar.
func sparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}
