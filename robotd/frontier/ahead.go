package frontier

import (
	"bytes"
	"errors"
	"fmt"
)

// Of the log a few lines are read at a time, and kept for those hosts that were visited
// last: a hundred thousand that each held what a read brings would fill the memory.
const (
	readAhead   = 4 << 10
	longestLine = 64 << 10
	keepAhead   = 32 // entries
	aheadHosts  = 1024
)

// lookAhead is the entries that come next. Whoever uses it holds the host's mutex.
type lookAhead struct {
	entries []Entry
	widths  []int64 // bytes of each in the log
}

// ErrEmpty means that there is no page in hand.
var ErrEmpty = errors.New("no page in hand")

// Head returns the page in hand: the first that is not finished. The answer
// stays the same until Finish or Retry.
func (h *Host) Head() (Entry, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.first(); e != nil {
		return *e, true, nil
	}
	a, err := h.look()
	if err != nil || a == nil {
		return Entry{}, false, err
	}
	h.given = true
	return a.entries[0], true, nil
}

// look returns the entries that come next, one at least, or nil where there is none.
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

// fill reads the lines that begin in the next size bytes; nil where they hold no whole one.
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

// pass goes on to the next entry.
func (a *lookAhead) pass() { a.entries, a.widths = a.entries[1:], a.widths[1:] }
