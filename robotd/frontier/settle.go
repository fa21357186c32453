package frontier

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cycleFiles are the kinds of a cycle's files, in the order of their removal. Without its log a
// cycle settles to nothing; without its journal every page of the log would count as not visited.
var cycleFiles = []string{"log", "journal", flag, linksKind}

// settleBefore merges the visits of every cycle before the given one into the state, and removes
// the files of those cycles. A crash in between is harmless, as merging twice yields the same.
// Sorting uses files in temp.
func settleBefore(temp, dir, host string, cycle int64) error {
	var old []int64
	for _, kind := range cycleFiles {
		paths, err := filepath.Glob(filepath.Join(dir, "*."+kind))
		if err != nil {
			return err
		}
		for _, path := range paths {
			n, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(path), "."+kind), 10, 64)
			if err != nil {
				return fmt.Errorf("%s is not named after a cycle; move it away", path)
			}
			if n < cycle {
				old = append(old, n)
			}
		}
	}
	slices.Sort(old)
	for _, n := range slices.Compact(old) {
		if err := settle(temp, dir, host, n); err != nil {
			return fmt.Errorf("settling cycle %d: %w", n, err)
		}
		for _, kind := range cycleFiles {
			if err := os.Remove(filePath(dir, n, kind)); err != nil && !os.IsNotExist(err) {
				return err
			}
		}
	}
	return nil
}

func settle(temp, dir, host string, cycle int64) (err error) {
	s, left := newSorter(temp, host, sortMemory), newSorter(temp, host, sortMemory)
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
	links, err := readLinks(filePath(dir, cycle, linksKind))
	if err != nil {
		return err
	}
	return rewriteState(dir, host, cycle, left, s, newest.Add(-keepVisits), links)
}

// rewriteState writes a new state and renames it into place. Of entries for the same page, fresh
// replaces the old state, and the old state replaces left. Of pages without a visit only those in
// left remain, with the links that the old state and this cycle have counted.
func rewriteState(dir, host string, cycle int64, left, fresh *sorter, forget time.Time, links linkCounts) (err error) {
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
	if old.cycle >= cycle { // a crash came after the renaming: they are in it
		links = linkCounts{}
	}
	below, err := left.source()
	if err != nil {
		return err
	}
	above, err := fresh.source()
	if err != nil {
		return err
	}
	tmp, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	defer func() {
		tmp.Close() // a second time, unless err is of an earlier step
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	w := bufio.NewWriter(tmp)
	fmt.Fprintf(w, "%s%d\n", stateHeader, cycle)
	pages := 0
	err = mergeKnown([]knownSource{below, old, above}, func(k known, from int) error {
		visited := k.visit.learned()
		if k.visit.Gone || from == 1 && (!visited || !k.visit.Full.After(forget)) {
			return nil
		}
		if !visited {
			k.entry.Links += links.of(k.key)
		}
		if damaged { // lost pages are found again only by the links of all others
			k.visit = Visit{}
		}
		pages++
		_, err := w.Write(k.append(w.AvailableBuffer(), host))
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s%d\n", stateEnd, pages)
	if err := errors.Join(w.Flush(), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// knownSource returns pages in the order of their keys.
type knownSource interface {
	next() (known, bool, error)
}

// mergeKnown calls put with the pages of all sources in the order of their keys. If several sources
// have a page, it uses the page of the last source with a visit to it. If no source has a visit, it
// uses the page of the first source, with the sum of all links.
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
			if live[i] && (best < 0 || heads[i].key < heads[best].key) {
				best = i
			}
		}
		if best < 0 {
			return nil
		}
		k := heads[best]
		for i := best + 1; i < len(sources); i++ {
			if !live[i] || heads[i].key != k.key {
				continue
			}
			if heads[i].visit.learned() {
				k, best = heads[i], i
			} else {
				k.entry.Links += heads[i].entry.Links
			}
		}
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
