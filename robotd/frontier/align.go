package frontier

// Cell is a whole cell that was found in a host's open segment.
type Cell struct {
	URL string
	End int64 // offset of the first byte behind it
}

// Align brings the queue into line with the host's open segment as it was found
// at start: segment is its name, empty where there is none, cells what it holds,
// in order. It reports whether the page in hand turned out to be finished.
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
	marks, ends, err := readJournal(h.journal.path)
	if err != nil {
		return false, err
	}
	n := len(marks)
	for n > 0 && marks[n-1].segment == segment && marks[n-1].end > end {
		n--
	}
	if n < len(marks) {
		return false, h.restore(marks[:n], ends[:n])
	}
	done := int64(0)
	if h.last.segment == segment {
		done = h.last.end
	}
	for _, c := range cells {
		if c.End <= done {
			continue
		}
		e, ok, err := h.head()
		if err != nil {
			return false, err
		}
		// A page that was fetched twice, after power was lost, is met here with
		// another page in hand: its cell is one copy too many and does no harm.
		if !ok || e.URL != c.URL {
			continue
		}
		return true, h.finish(Done{Segment: segment, End: c.End})
	}
	return false, nil
}
