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
	"sort"
	"sync"

	"sheaf/internal/files"
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

const (
	keyBytes  = 8
	blockKeys = 512 // 4 KiB, a page of the page cache
)

// run is an unnamed file of sorted keys.
type run struct {
	file   *os.File
	keys   int64
	firsts []uint64 // first key of each block
	filter filter
}

// has looks a key up in the file. block is a buffer for one block.
func (r *run) has(key uint64, block []byte) (bool, error) {
	at := sort.Search(len(r.firsts), func(i int) bool { return r.firsts[i] > key }) - 1
	if at < 0 {
		return false, nil
	}
	off := int64(at) * blockKeys
	n := min(blockKeys, r.keys-off)
	block = block[:n*keyBytes]
	if _, err := r.file.ReadAt(block, off*keyBytes); err != nil {
		return false, err
	}
	i := sort.Search(int(n), func(i int) bool { return binary.BigEndian.Uint64(block[i*keyBytes:]) >= key })
	return i < int(n) && binary.BigEndian.Uint64(block[i*keyBytes:]) == key, nil
}

// writeRun merges sources of sorted keys, with at most total keys, into a run in dir.
func writeRun(dir string, total int64, sources []*bufio.Reader) (r *run, err error) {
	f, err := files.Nameless(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	r = &run{
		file:   f,
		firsts: make([]uint64, 0, total/blockKeys+1),
		filter: newFilter(total),
	}
	w := bufio.NewWriterSize(f, 64<<10)
	last := uint64(0)
	for {
		key, from, err := least(sources)
		if err != nil {
			return nil, err
		}
		if from == nil {
			return r, w.Flush()
		}
		_, _ = from.Discard(keyBytes) // which lie in its buffer
		if r.keys > 0 && key == last {
			continue
		}
		if r.keys%blockKeys == 0 {
			r.firsts = append(r.firsts, key)
		}
		r.keys++
		r.filter.add(key)
		last = key
		if _, err := w.Write(binary.BigEndian.AppendUint64(w.AvailableBuffer(), key)); err != nil {
			return nil, err
		}
	}
}

// least returns the least of the keys that come next in the sources, and its source; nil: the
// sources have ended.
func least(sources []*bufio.Reader) (key uint64, from *bufio.Reader, err error) {
	for _, s := range sources {
		data, err := s.Peek(keyBytes)
		if err == io.EOF {
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		if next := binary.BigEndian.Uint64(data); from == nil || next < key {
			key, from = next, s
		}
	}
	return key, from, nil
}

// filter is a Bloom filter. All bits of a key are in one block of 32 bytes, which is in one cache
// line of the processor: a look-up needs one memory access, not seven (Putze, Sanders and Singler,
// "Cache-, hash- and space-efficient Bloom filters", 2007). The split blocks are those of Apache
// Parquet. The keys are hashes, so they are not hashed again.
type filter []block

// block has one bit in each word for each of its keys.
type block [8]uint32

const filterBits = 10 // for each key; one in sixty absent keys passes

// newFilter returns a filter for that many keys.
func newFilter(keys int64) filter {
	return make(filter, keys*filterBits/256+1)
}

// salts are the odd numbers with which Parquet's filters select bits.
var salts = block{0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31}

// of returns the block of a key. The upper half of the key selects it in ascending order, so that
// sorted keys fill the filter from beginning to end.
func (f filter) of(key uint64) *block { return &f[(key>>32)*uint64(len(f))>>32] }

func (f filter) add(key uint64) {
	b := f.of(key)
	for i, salt := range salts {
		b[i] |= 1 << (uint32(key) * salt >> 27)
	}
}

// has returns true for every key that was added, and for a few others.
func (f filter) has(key uint64) bool {
	b := f.of(key)
	for i, salt := range salts {
		if b[i]>>(uint32(key)*salt>>27)&1 == 0 {
			return false
		}
	}
	return true
}
