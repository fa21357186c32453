package frontier

import (
	"errors"
	"fmt"

	"sheaf/internal/files"
)

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
