package frontier

import (
	"errors"
	"fmt"
	"os"

	"sheaf/internal/files"
)

// A few lines of the log are read at a time, and kept only for the hosts visited last: the buffers
// of a hundred thousand hosts would fill the memory.
const (
	aheadBytes   = 4 << 10
	aheadEntries = 32
	aheadHosts   = 1024
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
	a, err := h.readAhead()
	if err != nil {
		return nil, fmt.Errorf("frontier of %s: %w", h.Name, err)
	}
	h.ahead.Store(a)
	h.front.ahead.Add(h, a)
	return a, nil
}

// readAhead reads the lines that begin in the next aheadBytes, at most aheadEntries.
func (h *Host) readAhead() (*lookAhead, error) {
	from := h.last.consumed
	lines, err := files.OpenLines(h.path("log"), from)
	if err == nil && lines == nil {
		err = fmt.Errorf("%s: %w", h.path("log"), os.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	defer lines.Close()
	a := new(lookAhead)
	for at := from; len(a.entries) < aheadEntries && at < min(h.logSize, from+aheadBytes); at = lines.End {
		line, err := lines.Next()
		if err != nil {
			return nil, fmt.Errorf("%s at offset %d: %w", h.path("log"), at, err)
		}
		e, err := parseEntry(line, h.Name)
		if err != nil {
			return nil, err
		}
		a.entries, a.widths = append(a.entries, e), append(a.widths, lines.End-at)
	}
	return a, nil
}

// pass removes the first entry.
func (a *lookAhead) pass() { a.entries, a.widths = a.entries[1:], a.widths[1:] }

// Retry moves the page in hand to the end of the queue and counts one more try. A page from
// PushFirst is dropped instead, since the caller will push it again.
func (h *Host) Retry() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lane.holds() {
		h.lane = h.lane.drop()
		return nil
	}
	a, err := h.look()
	if err != nil || a == nil {
		return errors.Join(err, ErrEmpty)
	}
	e := a.entries[0]
	e.Tries++
	return h.postpone(e, Done{})
}

// postpone appends the page in hand to the queue once more, as e, and then records that the page's
// first entry is finished. If the process ends in between, passPostponed does the latter after the
// next start.
func (h *Host) postpone(e Entry, d Done) error {
	before := h.logSize
	size, err := appendAt(h.path("log"), before, e.append(nil, h.Name))
	if err != nil {
		return fmt.Errorf("frontier of %s: %w", h.Name, err)
	}
	h.logSize = size
	if err := h.finish(d); err != nil {
		h.logSize = before
		return errors.Join(err, cutTo(h.path("log"), before))
	}
	h.left++
	return nil
}

// passPostponed finishes the entries at the head of the queue whose pages are in the queue once
// more. Such a page was postponed, and the process ended before the journal said so.
func passPostponed(h *Host) error {
	for h.repeats {
		a, err := h.look()
		if err != nil || a == nil {
			return err
		}
		if again, err := isPostponed(h, a); err != nil || !again {
			return err
		}
		if err := h.finish(Done{}); err != nil {
			return err
		}
	}
	return nil
}

// isPostponed reports whether the first entry's URL is in the queue once more.
func isPostponed(h *Host, a *lookAhead) (again bool, err error) {
	if !h.repeats {
		return false, nil
	}
	_, err = files.EachLine(h.path("log"), h.last.consumed+a.widths[0], func(line []byte, _ int64) error {
		e, err := parseEntry(line, h.Name)
		again = again || e.URL == a.entries[0].URL
		return err
	})
	return again, err
}
