package frontier

import (
	"io"

	"sheaf/internal/files"
)

// eachLeft calls fn for URLs that a cycle found but did not visit. It skips lost entries.
func eachLeft(dir, host string, cycle int64, fn func(known) error) error {
	end, err := endOfJournal(filePath(dir, cycle, "journal"), func(place) bool { return true })
	if err != nil {
		return err
	}
	_, err = files.EachLine(filePath(dir, cycle, "log"), end.last.consumed, func(line []byte, _ int64) error {
		e, err := parseEntry(line, host)
		if err != nil {
			return nil
		}
		return fn(known{hash(e.URL), Visit{}, Entry{URL: e.URL, Depth: e.Depth}})
	})
	return err
}

// eachVisited calls fn for the visits of a cycle, in order. A mark has the offset of its entry in
// the log, so both files are read once, side by side. Visits whose entry is lost are skipped: the
// page will be found again, and archived in full.
func eachVisited(dir, host string, cycle int64, fn func(known) error) error {
	log, err := files.OpenLines(filePath(dir, cycle, "log"), 0)
	if log == nil || err != nil {
		return err
	}
	defer log.Close()
	var line []byte
	return eachMark(filePath(dir, cycle, "journal"), func(m mark) error {
		if !m.visit.learned() {
			return nil
		}
		if m.own != nil {
			return fn(known{m.key, m.visit, *m.own})
		}
		for log.End < m.consumed {
			var err error
			if line, err = log.Next(); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
		e, err := parseEntry(line, host)
		if log.End != m.consumed || err != nil || hash(e.URL) != m.key {
			return nil
		}
		return fn(known{m.key, m.visit, Entry{URL: e.URL, Depth: e.Depth}})
	})
}
