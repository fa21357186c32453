package foreign

import (
	"archive/tar"
	"cmp"
	"fmt"
	"strings"
)

// Limits bound the expansion of one file. In addition a file may expand to at most 200 times its
// own size, or 256 MiB if that is more.
type Limits struct {
	Bytes   int64 `mapstructure:"max_bytes" want:"above 0"`   // of the inflated file; and of the content that it stands for, which are holes of sparse files and decoded bodies; 0 is DefaultBytes
	Entries int64 `mapstructure:"max_entries" want:"above 0"` // entries of a tar, or records of a WARC; 0 is DefaultEntries
}

// Defaults of Limits.
const (
	DefaultBytes   = 256 << 30
	DefaultEntries = 10_000_000
)

const (
	maxRatio = 200       // bytes for each byte of the file
	minLimit = 256 << 20 // bytes that any file may expand to
)

// meter counts what a file expands to.
type meter struct {
	maxBytes   int64
	limit      string // the name of the limit in maxBytes
	maxEntries int64
	inflated   int64 // bytes of the inflated file
	content    int64 // bytes of holes and decoded bodies
	entries    int64
}

func newMeter(limits Limits, size int64) *meter {
	m := &meter{maxBytes: cmp.Or(limits.Bytes, DefaultBytes), limit: "import.max_bytes", maxEntries: cmp.Or(limits.Entries, DefaultEntries)}
	if ratio := max(size, minLimit/maxRatio) * maxRatio; ratio < m.maxBytes {
		m.maxBytes, m.limit = ratio, fmt.Sprintf("%d for each of its own", maxRatio)
	}
	return m
}

func (m *meter) over() error {
	if m.inflated > m.maxBytes || m.content > m.maxBytes {
		return fmt.Errorf("the file expands to more than %d bytes, the limit (%s)", m.maxBytes, m.limit)
	}
	return nil
}

// read counts bytes of the inflated file. It fails beyond the limit.
func (m *meter) read(n int64) error {
	m.inflated += n
	return m.over()
}

// made counts bytes that the inflated file does not have: holes of sparse files, and decoded
// bodies.
func (m *meter) made(n int64) error {
	m.content += min(n, m.maxBytes+1) // min keeps the sum from overflowing
	return m.over()
}

// room returns how many bytes of holes and decoded bodies may still come.
func (m *meter) room() int64 { return m.maxBytes - m.content }

// entry counts an entry or record. It fails beyond the limit.
func (m *meter) entry() error {
	if m.entries++; m.entries > m.maxEntries {
		return fmt.Errorf("the file holds more than %d entries, the limit (import.max_entries)", m.maxEntries)
	}
	return nil
}

// sparse reports whether a file in a tar may have holes. The tar does not contain the holes.
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
