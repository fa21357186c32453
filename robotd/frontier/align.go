package frontier

import "sheaf/internal/files"

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
