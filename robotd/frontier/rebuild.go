package frontier

import (
	"os"

	"sheaf/internal/files"
)

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
