package frontier

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sheaf/internal/files"
)

// Turn says when in a cycle a known page is visited.
type Turn byte

// Turns of a page.
const (
	Later Turn = iota // in another cycle; until then the page counts as seen, whatever links to it
	First             // before all others
	Then              // after the First pages
)

// EachKnown calls fn for every page of earlier cycles. The order does not change within a cycle. A
// page that was found but never visited has no visit. EachKnown reports whether any pages are
// unreadable.
func (h *Host) EachKnown(fn func(Entry, Visit)) (damaged bool, err error) {
	state, err := eachKnown(filepath.Join(h.dir(), stateFile), h.Name, func(k known) error {
		fn(k.entry, k.visit)
		return nil
	})
	return state.damaged, err
}

// PushKnown queues the pages of earlier cycles. This is needed because a page that answers "not
// modified" shows no links, and the pages that it links to must be visited all the same. turns has
// one element for each page, in the order of EachKnown; nil means all pages. PushKnown returns how
// many pages wait for another cycle. Within a cycle it need not be called again. If the state is
// damaged and turns is nil, it queues all readable pages and drops their visits.
func (h *Host) PushKnown(turns []Turn) (later int, err error) {
	h.mu.Lock()
	queued := h.last.queued
	h.mu.Unlock()
	switch {
	case queued && turns == nil:
		return 0, nil
	case queued: // they are in the log; links must not queue the others
		later, err = h.deferKnown(nil)
	case turns == nil:
		err = h.pushKnown(nil, Then)
	default:
		if later, err = h.deferKnown(turns); err == nil {
			err = h.pushKnown(turns, First)
		}
		if err == nil {
			err = h.pushKnown(turns, Then)
		}
	}
	if err != nil {
		return later, fmt.Errorf("frontier of %s: %w", h.Name, err)
	}
	h.mu.Lock()
	h.last.queued = true // the next line of the journal records this
	h.mu.Unlock()
	return later, nil
}

const pushChunk = 1000 // pages

// inTurn calls fn with the pages of earlier cycles that have the given turn, or with all pages if
// turns is nil, some at a time. It reports whether any pages are unreadable.
func (h *Host) inTurn(turns []Turn, turn Turn, fn func([]known) error) (damaged bool, err error) {
	var some []known
	at := 0
	state, err := eachKnown(filepath.Join(h.dir(), stateFile), h.Name, func(k known) error {
		at++
		if turns != nil && (at > len(turns) || turns[at-1] != turn) {
			return nil
		}
		if some = append(some, k); len(some) < pushChunk {
			return nil
		}
		err := fn(some)
		some = some[:0]
		return err
	})
	if err == nil {
		err = fn(some)
	}
	return state.damaged, err
}

// pushKnown queues the pages that have the given turn.
func (h *Host) pushKnown(turns []Turn, turn Turn) error {
	damaged, err := h.inTurn(turns, turn, func(pages []known) error {
		entries := make([]Entry, len(pages))
		for i := range pages {
			entries[i] = pages[i].entry
		}
		_, err := h.Push(entries...)
		return err
	})
	if err == nil && damaged && turns == nil {
		err = os.Remove(filepath.Join(h.dir(), stateFile))
	}
	return err
}

// deferKnown marks as seen the pages whose turn is Later or, if turns is nil, all pages. It returns
// how many of these were not queued.
func (h *Host) deferKnown(turns []Turn) (n int, err error) {
	_, err = h.inTurn(turns, Later, func(pages []known) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		keys := make([]uint64, len(pages))
		for i := range pages {
			keys[i] = pages[i].key ^ h.salt
		}
		fresh, err := h.front.seen.Learn(keys)
		n += fresh
		return err
	})
	return n, err
}

// PushNow is Host.Push for pages that this cycle must visit, even if PushKnown has put them off to
// another cycle. It returns the number of pages that were put off. It reads the whole log, unless
// all the pages are new.
func PushNow(h *Host, entries ...Entry) (putOff int, err error) {
	n, err := h.Push(entries...)
	if err != nil || n == len(entries) {
		return 0, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	missing := make(map[string]Entry)
	for _, e := range entries {
		missing[e.URL] = e
	}
	_, err = files.EachLine(h.path("log"), 0, func(line []byte, _ int64) error {
		if e, err := parseEntry(line, h.Name); err == nil {
			delete(missing, e.URL)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	var lines []byte
	for _, e := range missing {
		lines = e.append(lines, h.Name)
	}
	size, err := appendAt(h.path("log"), h.logSize, lines)
	if err != nil {
		return 0, fmt.Errorf("frontier of %s: %w", h.Name, err)
	}
	h.logSize = size
	h.left += len(missing)
	return len(missing), nil
}

// KnownPages returns the number of pages of earlier cycles, or 0 if the state is damaged.
func (h *Host) KnownPages() (int, error) {
	const most = 32 // limit for the last line, in bytes
	path := filepath.Join(h.dir(), stateFile)
	size, err := fileSize(path)
	if err != nil || size == 0 {
		return 0, err
	}
	end := make([]byte, min(size, most))
	if _, err := readAt(path, size-int64(len(end)), end); err != nil {
		return 0, err
	}
	at := strings.LastIndex(string(end), stateEnd)
	if at < 0 {
		return 0, nil // the file is damaged
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(end[at+len(stateEnd):])))
	if err != nil {
		return 0, nil
	}
	return n, nil
}
