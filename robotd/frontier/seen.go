package frontier

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
)

const (
	tailKeys    = 1 << 16 // maximum number of hashes collected in memory
	recentSlots = 1 << 15
)

// Seen is a set of hashes, which must be evenly distributed over all 64 bits. It may be used
// concurrently.
type Seen struct {
	dir   string
	limit int // tailKeys, or less in tests

	mu     sync.Mutex // guards all below
	tail   map[uint64]struct{}
	runs   []*run   // longest first
	recent []uint64 // hashes known to be in a run; the last bits of a hash select its slot
	block  [blockKeys * keyBytes]byte
}

// NewSeen returns an empty set with files in dir. dir is created when the set becomes large.
func NewSeen(dir string) *Seen {
	return &Seen{dir: dir, limit: tailKeys, tail: make(map[uint64]struct{})}
}

// Has reports whether the hash was added.
func (s *Seen) Has(key uint64) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.has(key)
}

func (s *Seen) has(key uint64) (bool, error) {
	if _, ok := s.tail[key]; ok {
		return true, nil
	}
	if len(s.runs) == 0 {
		return false, nil
	}
	slot := &s.recent[key%recentSlots]
	if *slot == key && key != 0 { // an empty slot holds 0
		return true, nil
	}
	for _, r := range s.runs {
		if !r.filter.has(key) {
			continue
		}
		found, err := r.has(key, s.block[:])
		if err != nil {
			return false, fmt.Errorf("set of seen hashes: %w", err)
		}
		if found {
			*slot = key
			return true, nil
		}
	}
	return false, nil
}

// Add adds hashes. If it returns an error, from writing to the disk, the hashes are in the set all
// the same.
func (s *Seen) Add(keys ...uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		s.tail[key] = struct{}{}
	}
	if len(s.tail) < s.limit {
		return nil
	}
	if err := s.spill(); err != nil {
		return fmt.Errorf("set of seen hashes: %w", err)
	}
	return nil
}

// Learn adds the hashes that are not in the set, and returns their number.
func (s *Seen) Learn(keys []uint64) (fresh int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		has, err := s.has(key)
		if err != nil {
			return fresh, err
		}
		if has {
			continue
		}
		fresh++
		s.tail[key] = struct{}{}
		if len(s.tail) < s.limit {
			continue
		}
		if err := s.spill(); err != nil {
			return fresh, fmt.Errorf("set of seen hashes: %w", err)
		}
	}
	return fresh, nil
}

// spill merges the tail, and the runs that are not much longer, into one run.
func (s *Seen) spill() error {
	tail, err := binary.Append(nil, binary.BigEndian, slices.Sorted(maps.Keys(s.tail)))
	if err != nil {
		return err
	}
	sources := []*bufio.Reader{bufio.NewReader(bytes.NewReader(tail))}
	total, keep := int64(len(s.tail)), len(s.runs)
	for keep > 0 && s.runs[keep-1].keys <= total {
		keep--
		total += s.runs[keep].keys
		file := io.NewSectionReader(s.runs[keep].file, 0, s.runs[keep].keys*keyBytes)
		sources = append(sources, bufio.NewReaderSize(file, 64<<10))
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	merged, err := writeRun(s.dir, total, sources)
	if err != nil {
		return err
	}
	if s.recent == nil {
		s.recent = make([]uint64, recentSlots)
	}
	old := slices.Clone(s.runs[keep:])
	clear(s.runs[keep:])
	s.runs = append(s.runs[:keep], merged)
	clear(s.tail)
	return closeAll(old)
}

// Clear empties the set and closes its files, which then vanish.
func (s *Seen) Clear() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	runs := s.runs
	s.runs, s.recent, s.tail = nil, nil, make(map[uint64]struct{})
	return closeAll(runs)
}

func closeAll(runs []*run) error {
	var errs []error
	for _, r := range runs {
		errs = append(errs, r.file.Close())
	}
	return errors.Join(errs...)
}
