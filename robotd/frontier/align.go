package frontier

// Cell is a whole cell that was found in a host's open segment.
type Cell struct {
	URL   string
	End   int64 // offset of the first byte behind it
	Visit Visit // what the page was like where the cell is a full copy; for Rebuild
	Again bool  // it led elsewhere, which may be lost: Rebuild queues the page again
}

// Align brings the queue into line with the host's open segment as it was found
// at start: segment is its name, empty where there is none, cells what it holds,
// in order. It reports whether pages turned out to be finished that the journal does
// not know: the one in hand when the process ended, or more where lines were lost.
//
// Lines of the journal that speak of cells the segment does not have are
// dropped: those pages are fetched again.
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
		return false, h.countLeft()
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
		// The last cell is of a page that PushFirst had brought: it is in the queue no more, nor in the lane.
		last := cells[len(cells)-1]
		err = h.finishFirst(&Entry{URL: last.URL}, Done{Segment: segment, End: end, Visit: last.Visit})
	}
	return finished, err
}

// finishCollected finishes those entries of the queue that were collected. Entries before
// the last of them, which may have been finished or not, go behind all others. A
// page that was fetched twice, after power was lost, is in the queue no more: its cell is
// one copy too many and does no harm.
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
		} else if err = h.again(a.entries[0]); err != nil {
			break
		}
		err = h.finish(d)
	}
	return finished, err
}

// lastOf returns where in the log the last entry lies that is queued and was
// collected; -1 where there is none.
func (h *Host) lastOf(collected map[string]Cell) (int64, error) {
	last := int64(-1)
	if len(collected) == 0 || h.last.consumed >= h.logSize {
		return last, nil
	}
	at := h.last.consumed
	_, err := eachLine(h.path("log"), at, func(line []byte, end int64) error {
		e, err := parseEntry(line, h.Name)
		if _, ok := collected[e.URL]; ok && err == nil {
			last = at
		}
		at = end
		return err
	})
	return last, err
}
