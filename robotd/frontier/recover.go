package frontier

import (
	"os"

	"sheaf/internal/files"
)

// Align makes the queue agree with the host's open segment after a start. segment is the segment's
// name, empty if the host has none; cells are its cells in order. Align reports whether it has
// found finished pages of the queue that the journal lacks: the page in hand when the process
// ended, or more if lines of the journal were lost.
//
// Lines of the journal about cells that the segment does not have are removed; those pages are
// fetched again.
func (h *Host) Align(segment string, cells []Cell) (finished bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	end := int64(0)
	if len(cells) > 0 {
		end = cells[len(cells)-1].End
	}
	at, err := endOfJournal(h.path("journal"), func(p place) bool { return p.segment != segment || p.end <= end })
	if err != nil {
		return false, err
	}
	if at.after > 0 {
		if err := h.setPlace(at); err != nil {
			return false, err
		}
		h.left = 0
		_, err := files.EachLine(h.path("log"), h.last.consumed, func([]byte, int64) error {
			h.left++
			return nil
		})
		if err != nil {
			return false, err
		}
		return false, passPostponed(h)
	}
	done := int64(0)
	if h.last.segment == segment {
		done = h.last.end
	}
	collected := make(map[string]Cell)
	for _, c := range cells {
		if c.End > done {
			collected[c.URL] = c
		}
	}
	finished, err = h.finishCollected(collected, segment, done, end)
	if err == nil && len(collected) > 0 && (h.last.segment != segment || h.last.end < end) {
		// The last cell is of a page from PushFirst, which is neither in the queue nor in the lane
		// now.
		last := cells[len(cells)-1]
		err = h.finishFirst(&Entry{URL: last.URL}, Done{Segment: segment, End: end, Visit: last.Visit})
	}
	return finished, err
}

// finishCollected finishes the collected entries of the queue. Other entries before the last
// collected one may have been finished or not: they go to the end of the queue. A page that was
// fetched twice, after a power failure, is no longer in the queue: its second copy does no harm.
func (h *Host) finishCollected(collected map[string]Cell, segment string, done, end int64) (finished bool, err error) {
	last, err := h.lastOf(collected)
	for err == nil && h.last.consumed <= last {
		var a *lookAhead
		if a, err = h.look(); err != nil {
			break
		}
		d := Done{Segment: segment, End: done}
		if h.last.consumed == last {
			d.End = end
		}
		c, found := collected[a.entries[0].URL]
		if found {
			d.Visit, finished = c.Visit, true
		} else if found, err = isPostponed(h, a); err != nil {
			break
		}
		if found {
			err = h.finish(d)
		} else {
			err = h.postpone(a.entries[0], d)
		}
	}
	if err == nil {
		err = passPostponed(h)
	}
	return finished, err
}

// lastOf returns the offset in the log of the last queued entry that was collected, or -1.
func (h *Host) lastOf(collected map[string]Cell) (int64, error) {
	last := int64(-1)
	if len(collected) == 0 || h.last.consumed >= h.logSize {
		return last, nil
	}
	at := h.last.consumed
	_, err := files.EachLine(h.path("log"), at, func(line []byte, end int64) error {
		e, err := parseEntry(line, h.Name)
		if _, ok := collected[e.URL]; ok && err == nil {
			last = at
		}
		at = end
		return err
	})
	return last, err
}

// flag is the kind of an empty file that exists while a host's files are being rebuilt.
const flag = "rebuild"

// Damaged reports whether the queue must be rebuilt before use.
func (h *Host) Damaged() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.damaged
}

// Rebuild writes a damaged host's files again. It uses what can be read of them and collected: the
// cycle's pages in segments and batches, in any order. segment and end are the name and length of
// the host's open segment ("" and 0 if there is none). Collected pages are finished. The links in
// the lost lines must be pushed again by the caller, from the same pages; unseen is the number of
// finished pages that are not in collected. If there are any, the next cycle must find their links:
// Rebuild drops all visits, so that every page is archived in full. A flag file exists until all is
// written, so that a crash leads here again.
func (h *Host) Rebuild(segment string, end int64, collected []Cell) (unseen int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	visits := make(map[uint64]Visit) // of finished pages
	err = eachMark(h.path("journal"), func(m mark) error {
		if m.visit.learned() {
			visits[m.key] = m.visit
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	entries, err := h.salvage()
	if err != nil {
		return 0, err
	}
	finished := len(visits)
	have := make(map[uint64]bool, len(entries))
	for _, e := range entries {
		have[hash(e.URL)] = true
	}
	for _, c := range collected {
		key := hash(c.URL)
		_, ok := visits[key]
		if ok {
			finished--
		}
		switch {
		case c.Again:
			delete(visits, key)
		case !ok:
			visits[key] = c.Visit
		}
		if !have[key] && checkURL(c.URL) == nil {
			have[key] = true
			entries = append(entries, Entry{URL: c.URL})
		}
	}
	return finished, h.rewrite(entries, visits, segment, end, finished > 0)
}

// salvage returns the readable entries of the log, each URL once, as it was queued last.
func (h *Host) salvage() (entries []Entry, err error) {
	at := make(map[uint64]int)
	_, err = files.EachLine(h.path("log"), 0, func(line []byte, _ int64) error {
		e, err := parseEntry(line, h.Name)
		if err != nil {
			return nil // the line is lost
		}
		key := hash(e.URL)
		if i, ok := at[key]; ok {
			entries[i] = e
			return nil
		}
		at[key] = len(entries)
		entries = append(entries, e)
		return nil
	})
	return entries, err
}

// rewrite writes both files, with the finished entries first. forget says that all visits are
// dropped.
func (h *Host) rewrite(entries []Entry, visits map[uint64]Visit, segment string, end int64, forget bool) error {
	if err := os.WriteFile(h.path(flag), nil, 0o644); err != nil {
		return err
	}
	var log, journal []byte
	var done []mark
	for _, wanted := range []bool{true, false} {
		for _, e := range entries {
			key := hash(e.URL)
			visit, finished := visits[key]
			if finished != wanted {
				continue
			}
			log = e.append(log, h.Name)
			if finished {
				at := place{consumed: int64(len(log)), segment: segment, end: end}
				done = append(done, mark{place: at, key: key, visit: visit})
			}
		}
	}
	for _, m := range done {
		m.logged = int64(len(log))
		journal = append(journal, m.line()...)
	}
	for kind, data := range map[string][]byte{"log": log, "journal": journal} {
		if err := files.WriteFile(h.path(kind), data); err != nil {
			return err
		}
	}
	if forget {
		last := place{segment: segment, end: end}
		if len(done) > 0 {
			last = done[len(done)-1].place
		}
		last.logged = int64(len(log))
		if err := dropVisits(h, last); err != nil {
			return err
		}
	}
	if err := os.Remove(h.path(flag)); err != nil {
		return err
	}
	h.damaged = false
	return h.reopen()
}
