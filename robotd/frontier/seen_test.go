package frontier

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

func key(n int) uint64 {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(n)))
	return binary.BigEndian.Uint64(sum[:])
}

func has(t *testing.T, s *Seen, key uint64, want bool) {
	t.Helper()
	if got, err := s.Has(key); err != nil || got != want {
		t.Fatalf("Has(%x) = %t, %v; want %t", key, got, err, want)
	}
}

// At every size the set contains exactly what was added.
func TestSeenIsExact(t *testing.T) {
	s := NewSeen(filepath.Join(t.TempDir(), "seen"))
	s.limit = 100
	const n = 20_000
	edges := []uint64{0, 1, 1<<64 - 1, 1 << 63}
	for _, edge := range edges {
		has(t, s, edge, false)
	}
	if err := s.Add(edges...); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		has(t, s, key(i), false)
		if err := s.Add(key(i)); err != nil {
			t.Fatal(err)
		}
		has(t, s, key(i), true)
		has(t, s, key(i*7%(i+1)), true)
	}
	for i := range n {
		has(t, s, key(i), true)
		has(t, s, key(n+i), false)
	}
	for _, edge := range edges {
		has(t, s, edge, true)
	}
	if len(s.runs) > 9 {
		t.Errorf("%d keys lie in %d runs: too many to look through", n, len(s.runs))
	}
	if got := s.Disk(); got < (n-100)*keyBytes || got > (n+4)*keyBytes {
		t.Errorf("%d keys take %d bytes of disk", n, got)
	}
	if left, err := os.ReadDir(s.dir); err != nil || len(left) > 0 {
		t.Errorf("the set's files have names, so a crash would leave them: %v, %v", left, err)
	}
	if err := s.Clear(); err != nil {
		t.Fatal(err)
	}
	has(t, s, key(0), false)
}

// Disk returns the size of the set on disk, in bytes.
func (s *Seen) Disk() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := int64(0)
	for _, r := range s.runs {
		n += r.keys * keyBytes
	}
	return n
}

// A hash that was added twice is stored once.
func TestAddedTwice(t *testing.T) {
	s := NewSeen(t.TempDir())
	s.limit = 50
	for i := range 150 {
		if err := s.Add(key(i%50), key(i%50)); err != nil {
			t.Fatal(err)
		}
	}
	if fresh, err := s.Learn([]uint64{key(0), key(51), key(49), key(51), key(52)}); err != nil || fresh != 2 {
		t.Errorf("Learn found %d new hashes, %v; want 2", fresh, err)
	}
	has(t, s, key(51), true)
	if s.Disk() != 50*keyBytes || len(s.runs) != 1 {
		t.Errorf("50 hashes take %d bytes in %d runs", s.Disk(), len(s.runs))
	}
}

// If the disk fails, Add returns an error but the set still contains all that was added.
func TestDiskFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := NewSeen(dir)
	s.limit = 10
	failed := 0
	for i := range 30 {
		if err := s.Add(key(i)); err != nil {
			failed++
		}
		has(t, s, key(i), true)
	}
	if failed != 21 {
		t.Errorf("Add failed %d times, want each time from the tenth hash on", failed)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(key(30)); err != nil {
		t.Fatal(err)
	}
	for i := range 31 {
		has(t, s, key(i), true)
	}
}

// Every key that was added passes the filter, and few others do.
func TestFilter(t *testing.T) {
	for _, n := range []int{1, 100, 50_000} {
		f := newFilter(int64(n))
		for i := range n {
			f.add(key(i))
		}
		passed := 0
		for i := range n {
			if !f.has(key(i)) {
				t.Fatalf("%d keys: one that was added does not pass", n)
			}
			if f.has(key(n + i)) {
				passed++
			}
		}
		if passed > n/30 {
			t.Errorf("%d of %d others pass", passed, n)
		}
	}
}
