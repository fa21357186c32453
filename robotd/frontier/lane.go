package frontier

import (
	"fmt"
	"strconv"
	"strings"
)

// lane is the entries of a host that come before its queue although the cycle has seen them: pages that are
// visited several times in a cycle. It is in memory only. Whoever fills it knows after a restart
// what is due; the journal's lines of such visits name their URLs themselves.
type lane struct {
	hand    *Entry // in hand
	waiting []Entry
}

// PushFirst puts entries before the queue, seen in this cycle or not. Those that are there already stay
// where they are. It returns how many there were.
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
		key := hash(e.URL) ^ h.salt
		if seen, err := h.front.seen.Has(key); err != nil {
			return n, err
		} else if seen {
			continue
		}
		if err := h.front.seen.Add(key); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (l *lane) has(url string) bool {
	if l == nil {
		return false
	}
	if l.holds() && l.hand.URL == url {
		return true
	}
	for i := range l.waiting {
		if l.waiting[i].URL == url {
			return true
		}
	}
	return false
}

// holds reports whether the page in hand is one of the lane.
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

// first gives the entry in hand where it is one of the lane, which it may become unless the queue's is.
func (h *Host) first() *Entry {
	l := h.lane
	if l == nil {
		return nil
	}
	if l.hand == nil && len(l.waiting) > 0 && !h.given {
		e := l.waiting[0]
		l.hand, l.waiting = &e, l.waiting[1:]
	}
	return l.hand
}

// dropFirst takes the lane's entry out of hand.
func (h *Host) dropFirst() {
	if h.lane == nil {
		return
	}
	if h.lane.hand = nil; len(h.lane.waiting) == 0 {
		h.lane = nil
	}
}

// finishFirst records what became of an entry of the lane.
func (h *Host) finishFirst(e *Entry, d Done) error {
	if d.Segment == "" && !d.Visit.learned() {
		h.dropFirst()
		return nil
	}
	m := mark{key: hash(e.URL), visit: d.Visit, place: h.last, own: e}
	m.logged = h.logSize
	if d.Segment != "" {
		m.segment, m.end = d.Segment, d.End
	}
	size, err := appendAt(h.path("journal"), h.journalSize, m.line())
	if err != nil {
		return err
	}
	h.dropFirst()
	h.journalSize, h.last = size, m.place
	if h.marks != unknown {
		h.marks++
	}
	return nil
}

// EachVisited calls fn for what the running cycle's visits have told of pages, in their order.
func (h *Host) EachVisited(fn func(Entry, Visit)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return eachVisited(h.dir(), h.Name, h.cycle, func(k known) error {
		fn(k.entry, k.visit)
		return nil
	})
}

// ownMark stands before the depth and the URL that a line of the journal names itself, as its last word: no URL
// has a blank.
const ownMark = " @"

func (e *Entry) appendOwn(line []byte) []byte {
	return fmt.Appendf(line, "%s%d,%s", ownMark, e.Depth, e.URL)
}

// cutOwn reads the entry that stands behind a visit, if there is one.
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
