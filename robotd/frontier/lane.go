package frontier

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// lane holds a host's entries that come before the queue although this cycle has seen them: pages
// that are visited several times in a cycle. It is only in memory; after a restart the caller
// pushes again what is due. The journal's lines of such visits contain the URL.
type lane struct {
	hand    *Entry // being visited; nil: none
	waiting []Entry
}

// PushFirst puts entries before the queue, whether this cycle has seen them or not. Entries that
// are in the lane already keep their place. It returns the number of entries added.
func (h *Host) PushFirst(entries ...Entry) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range entries {
		if err := checkURL(e.URL); err != nil {
			return n, err
		}
		if h.lane.has(e.URL) {
			continue
		}
		e.First = true
		if h.lane == nil {
			h.lane = new(lane)
		}
		h.lane.waiting = append(h.lane.waiting, e)
		n++
		if _, err := h.front.seen.Learn([]uint64{hash(e.URL) ^ h.salt}); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (l *lane) has(url string) bool {
	if l == nil {
		return false
	}
	return l.holds() && l.hand.URL == url || slices.ContainsFunc(l.waiting, func(e Entry) bool { return e.URL == url })
}

// holds reports whether the page in hand is from the lane.
func (l *lane) holds() bool { return l != nil && l.hand != nil }

func (l *lane) len() int {
	switch {
	case l == nil:
		return 0
	case l.hand != nil:
		return 1 + len(l.waiting)
	}
	return len(l.waiting)
}

// first returns the lane's page in hand, or nil. If neither the lane nor the queue has a page in
// hand, it takes the lane's next page. queued says that the queue has one.
func (l *lane) first(queued bool) *Entry {
	if l == nil {
		return nil
	}
	if l.hand == nil && len(l.waiting) > 0 && !queued {
		e := l.waiting[0]
		l.hand, l.waiting = &e, l.waiting[1:]
	}
	return l.hand
}

// drop removes the page in hand. It returns nil if nothing is left.
func (l *lane) drop() *lane {
	if l == nil || len(l.waiting) == 0 {
		return nil
	}
	l.hand = nil
	return l
}

// finishFirst takes the lane's first page out, and records what its visit taught, if anything.
func (h *Host) finishFirst(e *Entry, d Done) error {
	if d.Segment == "" && !d.Visit.learned() {
		h.lane = h.lane.drop()
		return nil
	}
	m := mark{key: hash(e.URL), visit: d.Visit, place: h.last, own: e}
	m.logged = h.logSize
	if d.Segment != "" {
		m.segment, m.end = d.Segment, d.End
	}
	if err := h.mark(m); err != nil {
		return err
	}
	h.lane = h.lane.drop()
	return nil
}

// Beside adds to the journal a stored record that was never queued, such as a robots.txt: the
// journal has a line for each stored record. The URL does not become a known page.
func (h *Host) Beside(url string, d Done) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := mark{key: hash(url), place: h.last, own: &Entry{URL: url}}
	m.logged, m.segment, m.end = h.logSize, d.Segment, d.End
	return h.mark(m)
}

// EachVisited calls fn with the results of this cycle's visits, in order.
func (h *Host) EachVisited(fn func(Entry, Visit)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return eachVisited(h.dir(), h.Name, h.cycle, func(k known) error {
		fn(k.entry, k.visit)
		return nil
	})
}

// ownMark precedes the depth and URL at the end of a journal line that contains its own URL. A URL
// has no space.
const ownMark = " @"

func (e *Entry) appendOwn(line []byte) []byte {
	return fmt.Appendf(line, "%s%d,%s", ownMark, e.Depth, e.URL)
}

// cutOwn parses the entry after a visit, if there is one.
func cutOwn(visit string) (rest string, own *Entry) {
	at := strings.LastIndex(visit, ownMark)
	if at < 0 {
		return visit, nil
	}
	number, url, ok := strings.Cut(visit[at+len(ownMark):], ",")
	depth, err := strconv.Atoi(number)
	if !ok || err != nil || checkURL(url) != nil {
		return visit, nil
	}
	return visit[:at], &Entry{URL: url, Depth: depth}
}
