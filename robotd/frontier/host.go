package frontier

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"
)

// Of the log a few lines are read at a time, and kept: ten thousand hosts that each held
// what a large read brings would fill the memory.
const (
	readAhead   = 4 << 10
	longestLine = 64 << 10
	keepAhead   = 8 // entries
)

// Host is one host's queue, seen set and memory of visits. It may be used by
// many goroutines, though only one page of a host is in hand at a time.
type Host struct {
	Name string
	dir  string

	mu      sync.Mutex // guards all below and the files
	cycle   int64
	log     *grower
	seen    *grower
	journal *grower
	known   map[uint64]struct{}
	seenSum uint32  // CRC-32 of the seen file
	damaged bool    // the log has lines that nobody can read: see Rebuild
	lines   int     // of the journal; -1: visits were forgotten, and lines with them
	last    mark    // the journal's last line
	ahead   []Entry // entries read from last.consumed on
	widths  []int64 // bytes of each in the log
}

func openHost(dir, name string, cycle int64) (*Host, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := settleBefore(dir, cycle); err != nil {
		return nil, err
	}
	h := &Host{Name: name, dir: dir, cycle: cycle}
	return h, h.reopen()
}

// reopen reads the cycle's files. A damaged host is left as it is.
func (h *Host) reopen() error {
	for kind, p := range map[string]**grower{"log": &h.log, "seen": &h.seen, "journal": &h.journal} {
		g, err := openGrower(filePath(h.dir, h.cycle, kind))
		if err != nil {
			return err
		}
		*p = g
	}
	marks, ends, err := readJournal(h.journal.path)
	if err != nil {
		return err
	}
	if h.damaged, err = h.isDamaged(marks); err != nil || h.damaged {
		return err
	}
	return h.restore(marks, ends)
}

func filePath(dir string, cycle int64, kind string) string {
	return filepath.Join(dir, fmt.Sprintf("%d.%s", cycle, kind))
}

// restore takes the journal's lines as true, except those at the end that speak
// of more log than there is, and cuts every file to what belongs together.
func (h *Host) restore(marks []mark, ends []int64) error {
	n := len(marks)
	for n > 0 && marks[n-1].logged > h.log.size {
		n--
	}
	end := int64(0)
	h.last, h.lines = mark{}, n
	for _, m := range marks[:n] {
		if m.key == 0 {
			h.lines = -1
			break
		}
	}
	if n > 0 {
		h.last, end = marks[n-1], ends[n-1]
	}
	if err := h.journal.cut(end); err != nil {
		return err
	}
	h.ahead, h.widths = nil, nil
	return h.restoreSeen()
}

// restoreSeen reads the hashes that the journal vouches for and makes up the
// others from the log's tail, which it cuts to whole lines.
func (h *Host) restoreSeen() error {
	from := h.last
	if h.seen.size < from.seen {
		from = mark{} // the seen file is short: make all of it anew
	}
	data, err := h.seen.read(0, from.seen)
	if err != nil {
		return err
	}
	if h.seenSum = crc32.ChecksumIEEE(data); h.seenSum != from.seenSum || from.seen == 0 { // damaged: make it anew
		from, data, h.seenSum = mark{}, nil, 0
	}
	h.known = make(map[uint64]struct{}, len(data)/8)
	for ; len(data) >= 8; data = data[8:] {
		h.known[binary.BigEndian.Uint64(data)] = struct{}{}
	}
	tail, err := h.log.read(from.logged, h.log.size-from.logged)
	if err != nil {
		return err
	}
	whole := bytes.LastIndexByte(tail, '\n') + 1
	if err := h.log.cut(from.logged + int64(whole)); err != nil {
		return err
	}
	var fresh []byte
	for line := range bytes.Lines(tail[:whole]) {
		e, err := parseEntry(string(line[:len(line)-1]))
		if err != nil {
			return fmt.Errorf("%s: %w", h.log.path, err)
		}
		if key := hash(e.URL); h.learn(key) {
			fresh = binary.BigEndian.AppendUint64(fresh, key)
		}
	}
	if err := h.seen.cut(min(h.seen.size, from.seen)); err != nil {
		return err
	}
	h.seenSum = crc32.Update(h.seenSum, crc32.IEEETable, fresh)
	return h.seen.append(fresh)
}

func (h *Host) learn(key uint64) bool {
	if _, ok := h.known[key]; ok {
		return false
	}
	h.known[key] = struct{}{}
	return true
}

// Push queues those of the entries whose URL was not seen in this cycle, and
// returns how many there were.
func (h *Host) Push(entries ...Entry) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var lines, keys []byte
	var fresh []uint64
	for _, e := range entries {
		if err := checkURL(e.URL); err != nil {
			return 0, err
		}
		key := hash(e.URL)
		if !h.learn(key) {
			continue
		}
		fresh = append(fresh, key)
		lines = append(lines, e.line()...)
		keys = binary.BigEndian.AppendUint64(keys, key)
	}
	err := h.log.append(lines)
	if err == nil {
		err = h.seen.append(keys)
	}
	if err == nil {
		h.seenSum = crc32.Update(h.seenSum, crc32.IEEETable, keys)
	}
	if err != nil {
		for _, key := range fresh {
			delete(h.known, key)
		}
		return 0, fmt.Errorf("frontier of %s: %w", h.Name, err)
	}
	return len(fresh), nil
}

// Len returns how many different URLs the cycle has seen.
func (h *Host) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.known)
}

// Lost reports whether the journal knows less than the pages that are stored tell: each
// has its line, but for the one in hand.
func (h *Host) Lost(stored int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lines >= 0 && stored > h.lines+1
}

// Left counts the entries that are queued and not finished.
func (h *Host) Left() (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := 0
	for at := h.last.consumed; at < h.log.size; {
		data, err := h.log.read(at, readAhead)
		if err != nil {
			return 0, fmt.Errorf("frontier of %s: %w", h.Name, err)
		}
		lines += bytes.Count(data, []byte("\n"))
		at += int64(len(data))
	}
	return lines, nil
}

// Empty reports whether everything that was queued is finished.
func (h *Host) Empty() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last.consumed >= h.log.size
}

// Head returns the page in hand: the first that is not finished. The answer
// stays the same until Finish or Retry.
func (h *Host) Head() (Entry, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.head()
}

func (h *Host) head() (Entry, bool, error) {
	if len(h.ahead) == 0 {
		if err := h.fill(); err != nil {
			return Entry{}, false, fmt.Errorf("frontier of %s: %w", h.Name, err)
		}
	}
	if len(h.ahead) == 0 {
		return Entry{}, false, nil
	}
	return h.ahead[0], true, nil
}

func (h *Host) fill() error {
	data, err := h.log.read(h.last.consumed, readAhead)
	if err == nil && bytes.IndexByte(data, '\n') < 0 {
		data, err = h.log.read(h.last.consumed, longestLine)
	}
	if err != nil {
		return err
	}
	h.ahead, h.widths = make([]Entry, 0, keepAhead), make([]int64, 0, keepAhead)
	for len(h.ahead) < keepAhead {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		if !whole {
			return nil
		}
		e, err := parseEntry(string(line))
		if err != nil {
			return fmt.Errorf("%s at %d: %w", h.log.path, h.last.consumed, err)
		}
		h.ahead = append(h.ahead, e)
		h.widths = append(h.widths, int64(len(line))+1)
		data = rest
	}
	return nil
}

// Done says what became of the page in hand.
type Done struct {
	Segment string // the host's open segment, empty where the page got no cell
	End     int64  // its length with the page's cell
	Visit   Visit  // what the page was like; Full is zero where it was not collected
}

// ErrEmpty means that there is no page in hand.
var ErrEmpty = errors.New("no page in hand")

// Finish records that the page in hand is finished. Its cell must have been
// appended to the segment before, and its links pushed.
func (h *Host) Finish(d Done) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.finish(d)
}

func (h *Host) finish(d Done) error {
	e, ok, err := h.head()
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("frontier of %s: %w", h.Name, ErrEmpty)
	}
	if d.Segment == "" {
		d.Segment, d.End = h.last.segment, h.last.end
	}
	m := mark{
		consumed: h.last.consumed + h.widths[0],
		logged:   h.log.size, seen: h.seen.size, seenSum: h.seenSum,
		segment: d.Segment, end: d.End,
		key: hash(e.URL), visit: d.Visit,
	}
	if err := h.journal.append([]byte(m.line())); err != nil {
		return fmt.Errorf("frontier of %s: %w", h.Name, err)
	}
	h.last = m
	if h.lines >= 0 {
		h.lines++
	}
	h.ahead, h.widths = h.ahead[1:], h.widths[1:]
	return nil
}

// Retry puts the page in hand behind all others, with one more try counted.
func (h *Host) Retry() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, ok, err := h.head()
	if err != nil || !ok {
		return errors.Join(err, ErrEmpty)
	}
	e.Tries++
	if err := h.log.append([]byte(e.line())); err != nil {
		return fmt.Errorf("frontier of %s: %w", h.Name, err)
	}
	return h.finish(Done{})
}

// Sync makes all that was written durable against loss of power. The host's
// segment must be synced between the two steps, which segment does.
func (h *Host) Sync(segment func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := errors.Join(h.log.sync(), h.seen.sync()); err != nil {
		return err
	}
	if err := segment(); err != nil {
		return err
	}
	return h.journal.sync()
}
