package frontier

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/archive/sortedrun"
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
	s := newSorter(temp, host, sortMemory)
	defer func() { err = errors.Join(err, s.close()) }()
	if err := eachLeft(dir, host, cycle, s.add); err != nil { // first: a visit goes before it
		return err
	}
	var newest time.Time
	err = eachVisited(dir, host, cycle, func(k known) error {
		if k.visit.Full.After(newest) {
			newest = k.visit.Full
		}
		return s.add(k)
	})
	if err != nil || s.empty() {
		return err
	}
	links, err := readLinks(filePath(dir, cycle, linksKind))
	if err != nil {
		return err
	}
	return rewriteState(dir, host, cycle, s, newest.Add(-keepVisits), links)
}

// rewriteState writes a new state and renames it into place. Of entries for the same page, a visit
// in fresh replaces the old state, and the old state replaces a page that fresh has without a
// visit. Of pages without a visit only those in fresh remain, with the links that the old state and
// this cycle have counted.
func rewriteState(dir, host string, cycle int64, fresh *sorter, forget time.Time, links linkCounts) (err error) {
	path := filepath.Join(dir, stateFile)
	old, err := eachKnown(path, host, func(known) error { return nil })
	if err != nil {
		return err
	}
	if old.cycle >= cycle { // a crash came after the renaming: they are in it
		links = linkCounts{}
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
	err = mergeKnown(path, host, fresh, forget, func(k known) error {
		if !k.visit.learned() {
			k.entry.Links += links.of(k.key)
		}
		if old.damaged { // lost pages are found again only by the links of all others
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

// mergeKnown calls put with the pages of the state file at path and of fresh, in the order of their
// keys, except those that are to be forgotten.
func mergeKnown(path, host string, fresh *sorter, forget time.Time, put func(known) error) error {
	rows, err := fresh.source()
	if err != nil {
		return err
	}
	var next known
	var more bool
	advance := func() (err error) {
		next, more, err = rows.next()
		return err
	}
	pass := func() error { // puts the next page of fresh
		if !next.visit.Gone {
			if err := put(next); err != nil {
				return err
			}
		}
		return advance()
	}
	if err := advance(); err != nil {
		return err
	}
	_, err = eachKnown(path, host, func(old known) error {
		for more && next.key < old.key {
			if err := pass(); err != nil {
				return err
			}
		}
		visited := old.visit.learned()
		if more && next.key == old.key {
			if !visited && !next.visit.learned() {
				next.entry.Links += old.entry.Links
			}
			if !visited || next.visit.learned() {
				return pass()
			}
			if err := advance(); err != nil {
				return err
			}
		}
		if visited && old.visit.Full.After(forget) {
			return put(old)
		}
		return nil
	})
	for err == nil && more {
		err = pass()
	}
	return err
}

// sortMemory is how many bytes of visits are sorted in memory.
const sortMemory = 1 << 20

// sorter sorts visits by their keys, in files if there are many. Of several visits to a page it
// keeps the last.
type sorter struct {
	host string
	rows *sortedrun.Sorter // lines as in the state, each behind its key and its number
	n    uint64
	row  []byte
}

// newSorter returns a sorter that holds limit bytes in memory, and has its file in dir.
func newSorter(dir, host string, limit int) *sorter {
	return &sorter{host: host, rows: sortedrun.NewSorter(dir, limit, bytes.Compare)}
}

func (s *sorter) add(k known) error {
	s.n++
	head := binary.BigEndian.AppendUint64(make([]byte, 0, keyDigits), k.key)
	head = binary.BigEndian.AppendUint64(head, math.MaxUint64-s.n) // the last visit comes first
	s.row = k.append(hex.AppendEncode(s.row[:0], head), s.host)
	return s.rows.Add(s.row)
}

func (s *sorter) empty() bool { return s.n == 0 }

func (s *sorter) close() error { return s.rows.Close() }

// source returns the visits that were added.
func (s *sorter) source() (*sorted, error) {
	rows, err := s.rows.Rows(context.Background())
	return &sorted{host: s.host, rows: rows}, err
}

// sorted has the visits of a sorter, in the order of their keys.
type sorted struct {
	host string
	rows *sortedrun.Merged
	last []byte // key of the page that next has returned
}

const (
	keyDigits = 16
	rowDigits = 2 * keyDigits
)

func (s *sorted) next() (known, bool, error) {
	for row := s.rows.Row(); row != nil; row = s.rows.Row() {
		k, ok := known{}, !bytes.Equal(row[:keyDigits], s.last)
		if ok {
			s.last = append(s.last[:0], row[:keyDigits]...)
			var read bool
			if k, read = parseKnown(row[rowDigits:], s.host); !read {
				return k, false, fmt.Errorf("line %.200q of the sorted visits differs from what was written", row)
			}
		}
		if err := s.rows.Next(context.Background()); err != nil || ok {
			return k, err == nil, err
		}
	}
	return known{}, false, nil
}
