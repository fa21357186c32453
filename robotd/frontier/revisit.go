package frontier

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sheaf/robotd/schedule"
)

// History is what the visits to a page have told of how it changes.
type History struct {
	Last time.Time // of the visits that met the page
	schedule.Changes
	schedule.Daily
}

// appendTo writes a history in some 20 bytes: minutes in base 36. A page without one has none.
func (h History) appendTo(b []byte) []byte {
	if h.Last.IsZero() {
		return b
	}
	b = append(b, " ~"...)
	for i, n := range []int64{
		h.Last.Unix() / 60, int64(h.Visits), int64(h.Changed), minutes(h.TimeKept), minutes(h.TimeMoved), int64(h.Times), int64(h.Hits),
	} {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 36)
	}
	return b
}

const minutesADay = 24 * 60

func minutes(days float64) int64 { return int64(days*minutesADay + 0.5) }

// parseHistory reads what appendTo wrote, without the blank; what is no history is none.
func parseHistory(text string) (h History) {
	text, _, _ = strings.Cut(text, " ")
	text, ok := strings.CutPrefix(text, "~")
	fields := strings.Split(text, ",")
	var n [7]int64
	if !ok || len(fields) != len(n) {
		return h
	}
	for i, f := range fields {
		var err error
		if n[i], err = strconv.ParseInt(f, 36, 64); err != nil || n[i] < 0 {
			return h
		}
	}
	h.Last = time.Unix(n[0]*60, 0).UTC()
	h.Visits, h.Changed = int(n[1]), int(n[2])
	h.TimeKept, h.TimeMoved = float64(n[3])/minutesADay, float64(n[4])/minutesADay
	h.Times, h.Hits = int(n[5]), int(n[6])
	return h
}

// Turn is when in a cycle a known page comes.
type Turn byte

// The turns.
const (
	Later Turn = iota // in another cycle; until then the page counts as seen, whatever links to it
	First             // before all others
	Then              // behind those
)

// EachKnown calls fn for every page of earlier cycles, in an order that stays the same in a
// cycle. A page that was found and never visited has no visit. It reports whether there are
// others that cannot be read.
func (h *Host) EachKnown(fn func(Entry, Visit)) (damaged bool, err error) {
	return eachKnown(filepath.Join(h.dir(), stateFile), h.Name, func(k known) error {
		fn(k.entry, k.visit)
		return nil
	})
}

// PushKnown queues the pages of earlier cycles: a page that answers "not modified" shows no
// links, and what it leads to must be visited all the same. Turns, one for each page in the order
// of EachKnown, say which and when; nil is all. It returns how many were
// queued, and how many wait for another cycle; once it was done in a cycle, it need not be done again. Where the state is
// damaged it drops the visits, once what can be read of it is queued, all of it.
func (h *Host) PushKnown(turns []Turn) (total, later int, err error) {
	h.mu.Lock()
	queued := h.last.queued
	h.mu.Unlock()
	switch {
	case queued && turns == nil:
		return 0, 0, nil
	case queued: // in the log; the others are not to be queued by links
		later, err = h.deferKnown(nil)
	case turns == nil:
		total, err = h.pushKnown(nil, Then)
	default:
		if later, err = h.deferKnown(turns); err == nil {
			total, err = h.pushKnown(turns, First)
		}
		if err == nil {
			var n int
			n, err = h.pushKnown(turns, Then)
			total += n
		}
	}
	if err != nil {
		return total, later, fmt.Errorf("frontier of %s: %w", h.Name, err)
	}
	h.mu.Lock()
	h.last.queued = true // the next line of the journal says so
	h.mu.Unlock()
	return total, later, nil
}

const pushChunk = 1000 // pages

// pushKnown queues the pages that have a turn.
func (h *Host) pushKnown(turns []Turn, turn Turn) (total int, err error) {
	var entries []Entry
	flush := func() error {
		n, err := h.Push(entries...)
		total += n
		entries = entries[:0]
		return err
	}
	path := filepath.Join(h.dir(), stateFile)
	at := 0
	damaged, err := eachKnown(path, h.Name, func(k known) error {
		at++
		if turns != nil && (at > len(turns) || turns[at-1] != turn) {
			return nil
		}
		if entries = append(entries, k.entry); len(entries) == pushChunk {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err == nil && damaged && turns == nil {
		err = os.Remove(path)
	}
	return total, err
}

// deferKnown makes the pages whose turn is later, or nil: all that are not queued, count as seen, and
// counts them.
func (h *Host) deferKnown(turns []Turn) (n int, err error) {
	var keys []uint64
	flush := func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		fresh := keys[:0]
		for _, key := range keys {
			key ^= h.salt
			has, err := h.front.seen.Has(key)
			if err != nil {
				return err
			}
			if !has {
				fresh = append(fresh, key)
			}
		}
		n += len(fresh)
		err := h.front.seen.Add(fresh...)
		keys = keys[:0]
		return err
	}
	at := 0
	_, err = eachKnown(filepath.Join(h.dir(), stateFile), h.Name, func(k known) error {
		at++
		if turns != nil && (at > len(turns) || turns[at-1] != Later) {
			return nil
		}
		if keys = append(keys, k.key); len(keys) == pushChunk {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	return n, err
}

// KnownPages is how many pages of earlier cycles there are; 0 where that cannot be read.
func (h *Host) KnownPages() (int, error) {
	f, err := os.Open(filepath.Join(h.dir(), stateFile))
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	const most = 32 // bytes of the last line
	end := make([]byte, min(st.Size(), most))
	if _, err := f.ReadAt(end, st.Size()-int64(len(end))); err != nil {
		return 0, err
	}
	at := strings.LastIndex(string(end), stateEnd)
	if at < 0 {
		return 0, nil // it is damaged
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(end[at+len(stateEnd):])))
	if err != nil {
		return 0, nil
	}
	return n, nil
}
