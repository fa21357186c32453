package frontier

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// settleBefore merges the visits of every cycle before the given one into the state, and removes
// the files of those cycles. A crash in between is harmless, as merging twice yields the same.
// Sorting uses files in temp.
func settleBefore(temp, dir, host string, cycle int64) error {
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return err
	}
	var old []int64
	for _, path := range logs {
		n, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(path), ".log"), 10, 64)
		if err != nil {
			return fmt.Errorf("%s is not named after a cycle; move it away", path)
		}
		if n < cycle {
			old = append(old, n)
		}
	}
	slices.Sort(old)
	for _, n := range old {
		if err := settle(temp, dir, host, n); err != nil {
			return fmt.Errorf("settling cycle %d: %w", n, err)
		}
		for _, kind := range []string{"journal", flag, "log"} {
			if err := os.Remove(filePath(dir, n, kind)); err != nil && !os.IsNotExist(err) {
				return err
			}
		}
	}
	return nil
}

func settle(temp, dir, host string, cycle int64) (err error) {
	s := &sorter{dir: temp, host: host, limit: sortChunk}
	left := &sorter{dir: temp, host: host, limit: sortChunk}
	defer func() { err = errors.Join(err, s.close(), left.close()) }()
	var newest time.Time
	err = eachVisited(dir, host, cycle, func(k known) error {
		if k.visit.Full.After(newest) {
			newest = k.visit.Full
		}
		return s.add(k)
	})
	if err == nil {
		err = eachLeft(dir, host, cycle, left.add)
	}
	if err != nil || s.empty() && left.empty() {
		return err
	}
	return rewriteState(dir, host, cycle, left, s, newest.Add(-keepVisits))
}

// eachLeft calls fn for URLs that a cycle found but did not visit. It skips lost entries.
func eachLeft(dir, host string, cycle int64, fn func(known) error) error {
	end, err := endOfJournal(filePath(dir, cycle, "journal"), func(place) bool { return true })
	if err != nil {
		return err
	}
	_, err = eachLine(filePath(dir, cycle, "log"), end.last.consumed, func(line []byte, _ int64) error {
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
	log, err := openLines(filePath(dir, cycle, "log"), 0)
	if log == nil || err != nil {
		return err
	}
	defer log.close()
	var line []byte
	return eachMark(filePath(dir, cycle, "journal"), func(m mark) error {
		if !m.visit.learned() {
			return nil
		}
		if m.own != nil {
			return fn(known{m.key, m.visit, *m.own})
		}
		for log.end < m.consumed {
			var err error
			if line, err = log.next(); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
		e, err := parseEntry(line, host)
		if log.end != m.consumed || err != nil || hash(e.URL) != m.key {
			return nil
		}
		return fn(known{m.key, m.visit, Entry{URL: e.URL, Depth: e.Depth}})
	})
}

// rewriteState writes a new state and renames it into place. Of entries for the same page, fresh
// replaces the old state, and that replaces left.
func rewriteState(dir, host string, cycle int64, left, fresh *sorter, forget time.Time) (err error) {
	path := filepath.Join(dir, stateFile)
	damaged, err := eachKnown(path, host, func(known) error { return nil })
	if err != nil {
		return err
	}
	old, err := openState(path, host)
	if err != nil {
		return err
	}
	defer old.close()
	tmp, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tmp.Close(), os.Remove(tmp.Name()))
		}
	}()
	below, err := left.sources()
	if err != nil {
		return err
	}
	above, err := fresh.sources()
	if err != nil {
		return err
	}
	w := bufio.NewWriter(tmp)
	fmt.Fprintf(w, "%s%d\n", stateHeader, cycle)
	pages := 0
	var line []byte
	err = mergeKnown(slices.Concat(below, []knownSource{visited{old}}, above), func(k known, from int) error {
		if k.visit.Gone || from == len(below) && !k.visit.Full.After(forget) {
			return nil
		}
		if damaged { // lost pages are found again only by the links of all others
			k.visit = Visit{}
		}
		pages++
		line = k.append(line[:0], host)
		_, err := w.Write(line)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s%d\n", stateEnd, pages)
	if err := w.Flush(); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// visited skips pages without a visit: those that are left are in the newer log.
type visited struct{ knownSource }

func (v visited) next() (known, bool, error) {
	for {
		k, ok, err := v.knownSource.next()
		if !ok || err != nil || k.visit.learned() {
			return k, ok, err
		}
	}
}

// knownSource returns pages in the order of their keys.
type knownSource interface {
	next() (known, bool, error)
}

// mergeKnown calls put with the pages of all sources in the order of their keys. If several sources
// have a page, it uses the last source's.
func mergeKnown(sources []knownSource, put func(k known, from int) error) error {
	heads := make([]known, len(sources))
	live := make([]bool, len(sources))
	advance := func(i int) (err error) {
		heads[i], live[i], err = sources[i].next()
		return err
	}
	for i := range sources {
		if err := advance(i); err != nil {
			return err
		}
	}
	for {
		best := -1
		for i := range sources {
			if live[i] && (best < 0 || cmp.Compare(heads[i].key, heads[best].key) <= 0) {
				best = i
			}
		}
		if best < 0 {
			return nil
		}
		k := heads[best]
		if err := put(k, best); err != nil {
			return err
		}
		for i := range sources {
			for live[i] && heads[i].key == k.key {
				if err := advance(i); err != nil {
					return err
				}
			}
		}
	}
}
