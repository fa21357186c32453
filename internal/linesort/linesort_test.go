package linesort

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// With any memory limit all lines come back once, and each part is sorted, each time that Parts is
// called.
func TestSorter(t *testing.T) {
	for _, limit := range []int{1, 100, 3000, 1 << 20} {
		s := New(t.TempDir(), limit, bytes.Compare)
		random := rand.New(rand.NewPCG(1, uint64(limit)))
		var want []string
		for range 200 {
			var some strings.Builder
			for range random.IntN(5) {
				line := fmt.Sprintf("%d%s", random.IntN(1000), strings.Repeat("x", random.IntN(200_000)*random.IntN(2)*random.IntN(2)/100))
				want = append(want, line)
				some.WriteString(line + "\n")
			}
			if err := s.Add([]byte(some.String())); err != nil {
				t.Fatal(err)
			}
		}
		long := strings.Repeat("y", 200_000) // longer than the read buffer
		want = append(want, long)
		if err := s.Add([]byte(long + "\n")); err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		if s.Len() != int64(len(want)) {
			t.Errorf("limit %d: %d lines, want %d", limit, s.Len(), len(want))
		}
		for range 2 {
			parts, err := s.Parts()
			if err != nil {
				t.Fatal(err)
			}
			if limit < 1<<20 && len(parts) < 2 {
				t.Errorf("limit %d: nothing was spilled", limit)
			}
			var got []string
			for _, p := range parts {
				begin := len(got)
				for p.Line() != nil {
					got = append(got, string(p.Line()))
					if err := p.Next(); err != nil {
						t.Fatal(err)
					}
				}
				if !slices.IsSorted(got[begin:]) {
					t.Errorf("limit %d: a part is not in order", limit)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("limit %d: the lines that came back are not those added", limit)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
