package sortedrun

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// With any memory limit all rows come back once, in order, each time that Rows is called.
func TestSorter(t *testing.T) {
	for _, limit := range []int{1, 100, 3000, 1 << 20} {
		s := NewSorter(t.TempDir(), limit, bytes.Compare)
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
		if spilled := s.spill != nil; spilled != (limit < 1<<20) {
			t.Errorf("limit %d: spilled is %t", limit, spilled)
		}
		for range 2 {
			rows, err := s.Rows(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for rows.Row() != nil {
				got = append(got, string(rows.Row()))
				if err := rows.Next(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("limit %d: the rows that came back are not those added, in order", limit)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
