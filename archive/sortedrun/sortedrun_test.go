package sortedrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// blocks is a run in memory.
type blocks struct {
	blocks []*Block
	fail   error // of the next Block
}

// cut returns the rows as a run with blocks of random sizes.
func cut(t *testing.T, random *rand.Rand, rows []string) *blocks {
	r := new(blocks)
	for len(rows) > 0 {
		n := min(1+random.IntN(7), len(rows))
		b, err := NewBlock([]byte(strings.Join(rows[:n], "\n")+"\n"), n)
		testkit.Must(t, err)
		r.blocks, rows = append(r.blocks, b), rows[n:]
	}
	return r
}

func (r *blocks) Len() int64 { return int64(len(r.blocks)) }

func (r *blocks) Find(_ context.Context, bound string) (int64, error) {
	return int64(max(0, sort.Search(len(r.blocks), func(i int) bool { return string(r.blocks[i].Row(0)) >= bound })-1)), nil
}

func (r *blocks) Block(_ context.Context, n int64) (*Block, error) {
	if err := r.fail; err != nil {
		r.fail = nil
		return nil, err
	}
	return r.blocks[n], nil
}

// some returns sorted rows without duplicates.
func some(random *rand.Rand, n int) []string {
	var rows []string
	for range n {
		rows = append(rows, fmt.Sprintf("%03d", random.IntN(300)*2))
	}
	slices.Sort(rows)
	return slices.Compact(rows)
}

// Every move of a cursor arrives at the row at which a search in a slice arrives.
func TestCursor(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		rows := some(random, random.IntN(60))
		ctx, c := t.Context(), NewCursor(cut(t, random, rows))
		at := -1 // index of the cursor's row in rows; outside: there is none
		for range 60 {
			bound := fmt.Sprintf("%03d", random.IntN(610))
			first := sort.SearchStrings(rows, bound)
			move, name := error(nil), ""
			inside := at >= 0 && at < len(rows)
			switch step := random.IntN(6); {
			case step == 0:
				name, move, at = "seek "+bound, c.Seek(ctx, bound), first
			case step == 1:
				name, move, at = "seek before "+bound, c.SeekBefore(ctx, bound), first-1
			case step == 2:
				name, move, at = "seek end", c.SeekEnd(ctx), len(rows)-1
			case step == 3 && inside:
				name, move, at = "advance "+bound, c.Advance(ctx, bound), max(at, first)
			case step == 4 && inside:
				name, move, at = "next", c.Next(ctx), at+1
			case step == 5 && inside:
				name, move, at = "previous", c.Previous(ctx), at-1
			}
			testkit.Must(t, move)
			want := ""
			if at >= 0 && at < len(rows) {
				want = rows[at]
			}
			if got := string(c.Row()); got != want {
				t.Fatalf("%s in %v: row %q, want %q", name, rows, got, want)
			}
		}
	}
}

// A cursor whose read failed has no row, and finds the right one when it seeks again.
func TestCursorAfterFailure(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	r := cut(t, random, some(random, 50))
	c, injected := NewCursor(r), errors.New("injected")
	testkit.Must(t, c.SeekEnd(t.Context()))
	r.fail = injected
	if err := c.Seek(t.Context(), "000"); !errors.Is(err, injected) || c.Row() != nil {
		t.Errorf("error %v, row %q", err, c.Row())
	}
	testkit.Must(t, c.Seek(t.Context(), ""))
	if want := r.blocks[0].Row(0); !bytes.Equal(c.Row(), want) {
		t.Errorf("row %q, want %q", c.Row(), want)
	}
}

// A merge yields all rows of its sequences in order, in both directions, and again after a reset.
func TestMerge(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	backwards := func(a, b []byte) int { return bytes.Compare(b, a) }
	for range 100 {
		var want []string
		var forth, back []Rows
		for range random.IntN(6) {
			rows := some(random, random.IntN(20))
			want = append(want, rows...)
			f, b := NewCursor(cut(t, random, rows)), NewCursor(cut(t, random, rows))
			testkit.Must(t, f.Seek(t.Context(), ""))
			testkit.Must(t, b.SeekEnd(t.Context()))
			forth, back = append(forth, f), append(back, descending{b})
		}
		slices.Sort(want)
		m := Merge(bytes.Compare, forth...)
		check(t, m, want)
		for _, r := range forth {
			testkit.Must(t, r.(*Cursor).Seek(t.Context(), ""))
		}
		m.Reset()
		check(t, m, want)
		slices.Reverse(want)
		check(t, Merge(backwards, back...), want)
	}
}

type descending struct{ *Cursor }

func (d descending) Next(ctx context.Context) error { return d.Previous(ctx) }

func check(t *testing.T, m *Merged, want []string) {
	t.Helper()
	var got []string
	for m.Row() != nil {
		got = append(got, string(m.Row()))
		testkit.Must(t, m.Next(t.Context()))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("merged %v, want %v", got, want)
	}
}

// The lowest full level is merged first; a level that is not full is left.
func TestFullLevel(t *testing.T) {
	for _, c := range []struct {
		levels []int
		fanout int
		want   []int // indexes of levels
	}{
		{nil, 2, nil},
		{[]int{0, 0}, 3, nil},
		{[]int{1, 0, 1, 0}, 2, []int{1, 3}},
		{[]int{2, 1, 2, 1, 2}, 3, []int{0, 2, 4}},
		{[]int{0}, 1, nil},
	} {
		runs := make([]int, len(c.levels))
		for i := range runs {
			runs[i] = i
		}
		if got := FullLevel(runs, c.fanout, func(i int) int { return c.levels[i] }); !slices.Equal(got, c.want) {
			t.Errorf("levels %v, fanout %d: %v, want %v", c.levels, c.fanout, got, c.want)
		}
	}
}
