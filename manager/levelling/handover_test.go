package levelling

import (
	"slices"
	"testing"
)

// Each robot gets about the same, and the giver keeps its part.
func TestDeal(t *testing.T) {
	groups := func(left ...int64) (list []begunGroup) {
		for _, n := range left {
			list = append(list, begunGroup{left: n})
		}
		return list
	}
	for _, c := range []struct {
		groups []begunGroup
		total  int64
		takers int
		want   []int
	}{
		{groups(150, 150, 150, 150), 600, 1, []int{-1, 0, -1, 0}},
		{groups(150, 150, 150, 150), 1200, 1, []int{0, 0, 0, 0}}, // the giver has others that it has not begun
		{groups(9, 5, 4, 3), 21, 2, []int{-1, 0, 1, 1}},
		{groups(100), 100, 1, []int{-1}},
		{nil, 0, 3, nil},
	} {
		if got := deal(c.groups, c.total, c.takers); !slices.Equal(got, c.want) && len(c.want) > 0 {
			t.Errorf("%v of %d among %d: %v, want %v", c.groups, c.total, c.takers, got, c.want)
		}
	}
}
