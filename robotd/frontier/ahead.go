package frontier

import (
	"bytes"
	"errors"
	"fmt"
)

// A few lines of the log are read at a time, and kept only for the hosts visited last: the buffers
// of a hundred thousand hosts would fill the memory.
const (
	readAhead   = 4 << 10
	longestLine = 64 << 10
	keepAhead   = 32 // entries
	aheadHosts  = 1024
)

// lookAhead has the entries that come next. The host's mutex guards it.
type lookAhead struct {
	entries []Entry
	widths  []int64 // size of each entry in the log, in bytes
}

// ErrEmpty means that there is no page in hand.
var ErrEmpty = errors.New("no page in hand")

// Head returns the page in hand: the first page that is not finished. It returns the same page
// until Finish or Retry.
func (h *Host) Head() (Entry, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.lane.first(h.given); e != nil {
		return *e, true, nil
	}
	a, err := h.look()
	if err != nil || a == nil {
		return Entry{}, false, err
	}
	h.given = true
	return a.entries[0], true, nil
}

// look returns at least one of the entries that come next, or nil at the end of the queue.
func (h *Host) look() (*lookAhead, error) {
	if a := h.ahead.Load(); a != nil && len(a.entries) > 0 {
		return a, nil
	}
	if h.last.consumed >= h.logSize {
		return nil, nil
	}
	a, err := h.fill(readAhead)
	if err == nil && a == nil {
		a, err = h.fill(longestLine)
	}
	if err == nil && a == nil {
		err = fmt.Errorf("%s has no line of less than %d bytes at offset %d", h.path("log"), longestLine, h.last.consumed)
	}
	if err != nil {
		return nil, fmt.Errorf("frontier of %s: %w", h.Name, err)
	}
	h.ahead.Store(a)
	h.front.ahead.Add(h, a)
	return a, nil
}

// fill reads the lines that begin in the next size bytes. It returns nil if there is no whole line.
func (h *Host) fill(size int64) (*lookAhead, error) {
	data := make([]byte, min(size, h.logSize-h.last.consumed))
	n, err := readAt(h.path("log"), h.last.consumed, data)
	if err != nil {
		return nil, err
	}
	data = data[:n]
	count := min(bytes.Count(data, []byte("\n")), keepAhead)
	if count == 0 {
		return nil, nil
	}
	a := &lookAhead{entries: make([]Entry, 0, count), widths: make([]int64, 0, count)}
	for range count {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		e, err := parseEntry(line, h.Name)
		if err != nil {
			return nil, err
		}
		a.entries, a.widths = append(a.entries, e), append(a.widths, int64(len(line))+1)
		data = rest
	}
	return a, nil
}

// pass removes the first entry.
func (a *lookAhead) pass() { a.entries, a.widths = a.entries[1:], a.widths[1:] }
