package frontier

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
)

// flag is the kind of a file that stands while a host's files are being rebuilt.
const flag = "rebuild"

// isDamaged reports whether lines of the log are lost: one cannot be read, or the
// log is shorter than the journal says it was.
func (h *Host) isDamaged(marks []mark) (bool, error) {
	if _, err := os.Stat(filePath(h.dir, h.cycle, flag)); err == nil {
		return true, nil
	}
	damaged := false
	whole, err := eachEntry(h.log.path, func(Entry) {}, func() { damaged = true })
	if n := len(marks); n > 0 && marks[n-1].logged > whole {
		damaged = true
	}
	return damaged, err
}

// eachEntry calls fn for every line of a log and bad for those that cannot be read. It
// returns how long the whole lines are: the writer of a last one without end was interrupted.
func eachEntry(path string, fn func(Entry), bad func()) (whole int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			return whole, nil
		}
		if err != nil {
			return whole, err
		}
		whole += int64(len(line))
		if e, err := parseEntry(line[:len(line)-1]); err == nil {
			fn(e)
		} else {
			bad()
		}
	}
}

// Damaged reports that the queue cannot be used before it is rebuilt.
func (h *Host) Damaged() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.damaged
}

// Rebuild makes a damaged host's files anew from what of them can be read and from
// the pages of the cycle that lie in segments and batches: collected, in any order, with
// segment and end the host's open segment's name and length (empty and 0: none). What
// was collected is finished. Links that stood in the lost lines are the caller's to
// push again, from those same pages; unseen is how many pages are finished and not among
// them. Until all is written a flag stands, so that a crash under way leads here again.
func (h *Host) Rebuild(segment string, end int64, collected []Cell) (unseen int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	marks, _, err := readJournal(h.journal.path)
	if err != nil {
		return 0, err
	}
	entries, err := h.salvage()
	if err != nil {
		return 0, err
	}
	visits := make(map[uint64]Visit) // of what is finished
	for _, m := range marks {
		if m.visit.Gone || !m.visit.Full.IsZero() {
			visits[m.key] = m.visit
		}
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
	return finished, h.rewrite(entries, visits, segment, end)
}

// salvage returns the log's entries that can be read, each URL once, as it was queued last.
func (h *Host) salvage() (entries []Entry, err error) {
	at := make(map[uint64]int)
	_, err = eachEntry(h.log.path, func(e Entry) {
		key := hash(e.URL)
		if i, ok := at[key]; ok {
			entries[i] = e
			return
		}
		at[key] = len(entries)
		entries = append(entries, e)
	}, func() {})
	return entries, err
}

// rewrite writes the three files: what is finished first.
func (h *Host) rewrite(entries []Entry, visits map[uint64]Visit, segment string, end int64) error {
	flagPath := filePath(h.dir, h.cycle, flag)
	if err := os.WriteFile(flagPath, nil, 0o644); err != nil {
		return err
	}
	var log, journal strings.Builder
	var seen []byte
	var done []mark
	for _, wanted := range []bool{true, false} {
		for _, e := range entries {
			key := hash(e.URL)
			visit, finished := visits[key]
			if finished != wanted {
				continue
			}
			log.WriteString(e.line())
			seen = binary.BigEndian.AppendUint64(seen, key)
			if finished {
				done = append(done, mark{consumed: int64(log.Len()), segment: segment, end: end, key: key, visit: visit})
			}
		}
	}
	for _, m := range done {
		// No hashes are vouched for yet: they are made anew from the log.
		m.logged = int64(log.Len())
		journal.WriteString(m.line())
	}
	for kind, text := range map[string]string{"log": log.String(), "journal": journal.String(), "seen": string(seen)} {
		if err := replace(filePath(h.dir, h.cycle, kind), text); err != nil {
			return err
		}
	}
	if err := os.Remove(flagPath); err != nil {
		return err
	}
	h.damaged = false
	return h.reopen()
}

// replace writes a file whole and durably, or leaves the one that was there.
func replace(path, text string) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), path)
}
