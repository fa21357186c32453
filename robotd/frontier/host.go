package frontier

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Host is one host's queue, its share of the seen set and its memory of visits. It may be
// used by many goroutines, though only one page of a host is in hand at a time.
type Host struct {
	Name  string
	front *Frontier
	cycle int64

	mu          sync.Mutex // guards all below and the files
	damaged     bool       // the log has lines that nobody can read: see Rebuild
	logSize     int64
	journalSize int64
	marks       int    // lines of the journal; unknown: visits were forgotten, and lines with them
	last        place  // the journal's last line
	salt        uint64 // makes the hashes of this host, and of this opening, its own in the seen set
	urls        int    // different ones in the log
	left        int    // entries behind last.consumed

	lane  *lane // what comes before the queue; nil: nothing
	given bool  // the queue's first page is in hand

	ahead atomic.Pointer[lookAhead] // of whoever holds mu, or goes
}

const unknown = -1

// Push queues those of the entries whose URL was not seen in this cycle, and
// returns how many there were.
func (h *Host) Push(entries ...Entry) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, err := h.push(entries)
	if err != nil {
		err = fmt.Errorf("frontier of %s: %w", h.Name, err)
	}
	return n, err
}

func (h *Host) push(entries []Entry) (int, error) {
	var lines []byte
	fresh := make([]uint64, 0, len(entries))
	among := h.among(len(entries), &fresh)
	for _, e := range entries {
		if err := checkURL(e.URL); err != nil {
			return 0, err
		}
		key := hash(e.URL) ^ h.salt
		if among(key) {
			continue
		}
		has, err := h.front.seen.Has(key)
		if err != nil {
			return 0, err
		}
		if !has {
			fresh = append(fresh, key)
			lines = e.append(lines, h.Name)
		}
	}
	// Lines first: what the set has and the log has not would be lost.
	size, err := appendAt(h.path("log"), h.logSize, lines)
	if err != nil {
		return 0, err
	}
	h.logSize = size
	h.urls += len(fresh)
	h.left += len(fresh)
	return len(fresh), h.front.seen.Add(fresh...)
}

// among tells whether a key is one of those that are fresh, of which there may be n.
func (h *Host) among(n int, fresh *[]uint64) func(uint64) bool {
	const few = 32
	if n <= few {
		return func(key uint64) bool { return slices.Contains(*fresh, key) }
	}
	met := make(map[uint64]struct{}, n)
	return func(key uint64) bool {
		if _, ok := met[key]; ok {
			return true
		}
		met[key] = struct{}{}
		return false
	}
}

// Len returns how many different URLs the cycle has seen.
func (h *Host) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.urls
}

// Lost reports whether the journal knows less than the pages that are stored tell: each
// has its line, but for the one in hand.
func (h *Host) Lost(stored int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.marks != unknown && stored > h.marks+1
}

// Left counts the entries that are queued and not finished.
func (h *Host) Left() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.left + h.lane.len()
}

// Empty reports whether everything that was queued is finished.
func (h *Host) Empty() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last.consumed >= h.logSize && h.lane.len() == 0
}

// Done says what became of the page in hand.
type Done struct {
	Segment string // the host's open segment, empty where the page got no cell
	End     int64  // its length with the page's cell
	Visit   Visit  // what the page was like; Full is zero where it was not collected
}

// Finish records that the page in hand is finished. Its cell must have been
// appended to the segment before, and its links pushed.
func (h *Host) Finish(d Done) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lane.holds() {
		return h.finishFirst(h.lane.hand, d)
	}
	return h.finish(d)
}

func (h *Host) finish(d Done) error {
	a, err := h.look()
	if err != nil {
		return err
	}
	if a == nil {
		return fmt.Errorf("frontier of %s: %w", h.Name, ErrEmpty)
	}
	if d.Segment == "" {
		d.Segment, d.End = h.last.segment, h.last.end
	}
	m := mark{key: hash(a.entries[0].URL), visit: d.Visit, place: place{
		consumed: h.last.consumed + a.widths[0], logged: h.logSize, queued: h.last.queued,
		segment: d.Segment, end: d.End,
	}}
	size, err := appendAt(h.path("journal"), h.journalSize, m.line())
	if err != nil {
		return fmt.Errorf("frontier of %s: %w", h.Name, err)
	}
	h.journalSize, h.last = size, m.place
	if h.marks != unknown {
		h.marks++
	}
	h.left--
	h.given = false
	a.pass()
	return nil
}

// Retry puts the page in hand behind all others, with one more try counted. One that PushFirst
// brought is dropped: it will be brought again.
func (h *Host) Retry() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lane.holds() {
		h.dropFirst()
		return nil
	}
	a, err := h.look()
	if err != nil || a == nil {
		return errors.Join(err, ErrEmpty)
	}
	e := a.entries[0]
	e.Tries++
	if err := h.again(e); err != nil {
		return err
	}
	return h.finish(Done{})
}

// again puts an entry behind all others though its URL was seen.
func (h *Host) again(e Entry) error {
	size, err := appendAt(h.path("log"), h.logSize, e.append(nil, h.Name))
	if err != nil {
		return fmt.Errorf("frontier of %s: %w", h.Name, err)
	}
	h.logSize = size
	h.left++
	return nil
}

// Sync makes all that was written durable against loss of power. The host's
// segment must be synced between the two steps, which segment does.
func (h *Host) Sync(segment func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := syncFile(h.path("log")); err != nil {
		return err
	}
	if err := segment(); err != nil {
		return err
	}
	return syncFile(h.path("journal"))
}
