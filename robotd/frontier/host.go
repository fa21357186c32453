package frontier

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"

	"sheaf/internal/files"
)

// Host is one host's queue, its part of the seen set and its visits. It may be used concurrently,
// but only one page of a host is in hand at a time.
type Host struct {
	Name  string
	front *Frontier
	cycle int64

	mu          sync.Mutex // guards all below and the files
	damaged     bool       // the log has unreadable lines: see Rebuild
	repeats     bool       // when it was opened, the log had a URL more than once: see passPostponed
	logSize     int64
	journalSize int64
	marks       int    // lines of the journal; unknown after visits were forgotten
	last        place  // of the journal's last line
	salt        uint64 // makes the hashes of this host, and of this opening, unique in the seen set
	urls        int    // different URLs in the log
	left        int    // entries after last.consumed

	lane  *lane // entries before the queue; nil: none
	given bool  // the queue's first page is in hand

	links linkLog

	ahead atomic.Pointer[lookAhead] // set by the holder of mu; cleared by eviction
}

const unknown = -1

// Push queues the entries whose URLs were not seen in this cycle, and returns their number.
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
	met := make(map[uint64]bool, len(entries))
	for _, e := range entries {
		if err := checkURL(e.URL); err != nil {
			return 0, err
		}
		key := hash(e.URL) ^ h.salt
		if met[key] {
			continue
		}
		met[key] = true
		has, err := h.front.seen.Has(key)
		if err != nil {
			return 0, err
		}
		if !has {
			fresh = append(fresh, key)
			lines = e.append(lines, h.Name)
		}
	}
	// Write the lines first: a URL that is only in the set would be lost.
	size, err := appendAt(h.path("log"), h.logSize, lines)
	if err != nil {
		return 0, err
	}
	h.logSize = size
	h.urls += len(fresh)
	h.left += len(fresh)
	return len(fresh), h.front.seen.Add(fresh...)
}

// Len returns the number of different URLs that the cycle has seen.
func (h *Host) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.urls
}

// Lost reports whether lines of the journal are lost, given the number of stored records. Each
// record has a line, except that of the page in hand.
func (h *Host) Lost(stored int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.marks != unknown && stored > h.marks+1
}

// Left returns the number of queued entries that are not finished.
func (h *Host) Left() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.left + h.lane.len()
}

// Empty reports whether all queued entries are finished.
func (h *Host) Empty() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last.consumed >= h.logSize && h.lane.len() == 0
}

// Begun reports whether a page of the queue was finished or postponed in this cycle.
func (h *Host) Begun() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last.consumed > 0
}

// Done is the result of the page in hand.
type Done struct {
	Segment string // the host's open segment; empty if the page got no cell
	End     int64  // length of the segment including the page's cell
	Visit   Visit  // what the page was like; Full is zero if it was not collected
}

// Finish records that the page in hand is finished. The caller must have pushed its links and
// appended its cell to the segment.
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
	if err := h.mark(m); err != nil {
		return err
	}
	h.left--
	h.given = false
	a.pass()
	return nil
}

// mark appends a line to the journal.
func (h *Host) mark(m mark) error {
	size, err := appendAt(h.path("journal"), h.journalSize, m.line())
	if err != nil {
		return fmt.Errorf("frontier of %s: %w", h.Name, err)
	}
	h.journalSize, h.last = size, m.place
	if h.marks != unknown {
		h.marks++
	}
	return nil
}

// Sync makes everything written durable. It calls segment, which must sync the host's segment,
// after syncing the log and before syncing the journal.
func (h *Host) Sync(segment func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.links.flush(h.path(linksKind), 0); err != nil {
		return err
	}
	if err := syncFile(h.path("log")); err != nil {
		return err
	}
	if err := segment(); err != nil {
		return err
	}
	return syncFile(h.path("journal"))
}

func (f *Frontier) open(name string, cycle int64) (*Host, error) {
	h := &Host{Name: name, front: f, cycle: cycle}
	if err := os.MkdirAll(h.dir(), 0o755); err != nil {
		return nil, err
	}
	if err := settleBefore(f.temp(), h.dir(), name, cycle); err != nil {
		return nil, err
	}
	return h, h.reopen()
}

// dir returns the host's folder. It is not stored, as the path is longer than most of a Host's
// fields.
func (h *Host) dir() string { return h.front.path(h.Name) }

func (h *Host) path(kind string) string { return filePath(h.dir(), h.cycle, kind) }

// reopen reads the cycle's files. It leaves the files of a damaged host alone.
func (h *Host) reopen() error {
	if _, err := os.Stat(h.path(flag)); err == nil {
		h.damaged = true
		return nil
	}
	end, err := endOfJournal(h.path("journal"), func(place) bool { return true })
	if err != nil {
		return err
	}
	whole, err := h.readLog(end.last.consumed)
	if errors.Is(err, errDamaged) || err == nil && end.last.logged > whole {
		h.damaged = true
		return nil
	}
	if err != nil {
		return err
	}
	if err := cutTo(h.path("log"), whole); err != nil {
		return err
	}
	h.logSize = whole
	if err := h.setPlace(end); err != nil {
		return err
	}
	return passPostponed(h)
}

// setPlace accepts the journal up to the given end and truncates the rest.
func (h *Host) setPlace(end journalEnd) error {
	if err := cutTo(h.path("journal"), end.size); err != nil {
		return err
	}
	h.last, h.journalSize, h.marks = end.last, end.size, end.marks
	if end.forgotten {
		h.marks = unknown
	}
	h.ahead.Store(nil)
	return nil
}

// errDamaged says that a line of the log cannot be read.
var errDamaged = errors.New("the log is damaged")

// readLog adds the URLs of the log to the seen set and counts those queued after offset consumed.
// It returns the length of the log's complete lines.
func (h *Host) readLog(consumed int64) (whole int64, err error) {
	h.salt, h.urls, h.left = rand.Uint64(), 0, 0
	const batch = 512
	var url []byte
	keys := make([]uint64, 0, batch)
	learn := func() error {
		fresh, err := h.front.seen.Learn(keys)
		h.urls += fresh
		keys = keys[:0]
		return err
	}
	at, lines := int64(0), 0
	add := func(line []byte, end int64) error {
		_, short, ok := splitLine(line)
		if !ok {
			return errDamaged
		}
		if at >= consumed {
			h.left++
		}
		at = end
		lines++
		url = appendURL(url[:0], short, h.Name)
		if keys = append(keys, hash(string(url))^h.salt); len(keys) < batch {
			return nil
		}
		return learn()
	}
	if whole, err = files.EachLine(h.path("log"), 0, add); err != nil {
		return whole, err
	}
	err = learn()
	h.repeats = lines > h.urls
	return whole, err
}
