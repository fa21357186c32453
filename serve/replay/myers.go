package replay

import "slices"

// Comparing is limited in steps, not in time, so that the same two versions always give the same
// result. When the steps are used up, the rest counts as replaced as a whole.
const (
	maxSteps = 8_000_000 // iterations of the innermost loop, approximately; half a second
	maxNest  = 64
)

// edit says that b[bLo:bHi] replaces a[aLo:aHi]. What is between edits is equal.
type edit struct{ aLo, aHi, bLo, bHi int }

// comparer finds the edits between two sequences.
type comparer struct {
	a, b  []int32
	steps *int // steps left
	edits []edit
	v     []int // scratch memory of middle
}

// compare returns the edits that change a to b, in order: the fewest possible (Myers, An O(ND)
// Difference Algorithm and Its Variations, 1986). With patience it first matches the longest chain
// of items that occur once in both, and finds the fewest edits between these. That is fast for long
// sequences of many different items, and keeps what readers see as equal.
func compare(a, b []int32, patience bool, steps *int) []edit {
	c := &comparer{a: a, b: b, steps: steps}
	c.between(0, len(a), 0, len(b), patience, 0)
	return c.edits
}

// replace adds an edit, or extends the last one if they touch.
func (c *comparer) replace(aLo, aHi, bLo, bHi int) {
	if aLo == aHi && bLo == bHi {
		return
	}
	if n := len(c.edits); n > 0 && c.edits[n-1].aHi == aLo && c.edits[n-1].bHi == bLo {
		c.edits[n-1].aHi, c.edits[n-1].bHi = aHi, bHi
		return
	}
	c.edits = append(c.edits, edit{aLo, aHi, bLo, bHi})
}

func (c *comparer) between(aLo, aHi, bLo, bHi int, patience bool, depth int) {
	for aLo < aHi && bLo < bHi && c.a[aLo] == c.b[bLo] {
		aLo++
		bLo++
	}
	for aLo < aHi && bLo < bHi && c.a[aHi-1] == c.b[bHi-1] {
		aHi--
		bHi--
	}
	*c.steps -= aHi - aLo + bHi - bLo
	if aLo == aHi || bLo == bHi || depth > maxNest || *c.steps < 0 {
		c.replace(aLo, aHi, bLo, bHi)
		return
	}
	if patience {
		if anchors := c.anchors(aLo, aHi, bLo, bHi); len(anchors) > 0 {
			for _, p := range anchors {
				c.between(aLo, p.a, bLo, p.b, true, depth+1)
				aLo, bLo = p.a+1, p.b+1
			}
			c.between(aLo, aHi, bLo, bHi, true, depth+1)
			return
		}
	}
	x, y, ok := c.middle(aLo, aHi, bLo, bHi)
	if !ok {
		c.replace(aLo, aHi, bLo, bHi)
		return
	}
	c.between(aLo, x, bLo, y, false, depth+1)
	c.between(x, aHi, y, bHi, false, depth+1)
}

// pair is a position in a and the position of an equal item in b.
type pair struct{ a, b int }

// anchors returns the longest chain of items that occur once in both sections.
func (c *comparer) anchors(aLo, aHi, bLo, bHi int) []pair {
	type seen struct{ inA, inB, a, b int }
	items := make(map[int32]*seen)
	for i := aLo; i < aHi; i++ {
		s := items[c.a[i]]
		if s == nil {
			s = new(seen)
			items[c.a[i]] = s
		}
		s.inA, s.a = s.inA+1, i
	}
	for i := bLo; i < bHi; i++ {
		if s := items[c.b[i]]; s != nil {
			s.inB, s.b = s.inB+1, i
		}
	}
	var once []pair
	for i := aLo; i < aHi; i++ {
		if s := items[c.a[i]]; s.inA == 1 && s.inB == 1 {
			once = append(once, pair{s.a, s.b})
		}
	}
	return rising(once)
}

// rising returns the longest chain of pairs, sorted by a, that also rises in b.
func rising(pairs []pair) []pair {
	var piles []int // index of the last pair of the best chain of each length
	before := make([]int, len(pairs))
	for i, p := range pairs {
		n, _ := slices.BinarySearchFunc(piles, p.b, func(k, b int) int { return pairs[k].b - b })
		before[i] = -1
		if n > 0 {
			before[i] = piles[n-1]
		}
		if n == len(piles) {
			piles = append(piles, i)
		} else {
			piles[n] = i
		}
	}
	chain := make([]pair, len(piles))
	for n, i := len(piles)-1, 0; n >= 0; n-- {
		if n == len(piles)-1 {
			i = piles[n]
		}
		chain[n] = pairs[i]
		i = before[i]
	}
	return chain
}

// middle returns a point on a shortest path from one corner to the other, searching from both. Its
// memory is proportional to the lengths. It returns false if the steps are used up. Neither section
// may be empty, and neither their first nor their last items may be equal.
func (c *comparer) middle(aLo, aHi, bLo, bHi int) (x, y int, ok bool) {
	n, m := aHi-aLo, bHi-bLo
	most := (n+m+1)/2 + 1
	if need := 2 * (2*most + 1); len(c.v) < need {
		c.v = make([]int, need)
	}
	forward, back := c.v[:2*most+1], c.v[2*most+1:2*(2*most+1)]
	for i := range forward {
		forward[i], back[i] = -1, -1
	}
	forward[most+1], back[most+1] = 0, 0
	delta := n - m
	for d := 0; d <= most; d++ {
		if *c.steps -= 2 * (d + 1); *c.steps < 0 {
			return 0, 0, false
		}
		for k := -d; k <= d; k += 2 {
			at := c.furthest(forward, most, k, n, m, func(x, y int) bool { return c.a[aLo+x] == c.b[bLo+y] })
			if other := delta - k; delta&1 != 0 && -d < other && other < d && at >= 0 && at+back[most+other] >= n {
				return aLo + at, bLo + at - k, true
			}
		}
		for k := -d; k <= d; k += 2 {
			at := c.furthest(back, most, k, n, m, func(x, y int) bool { return c.a[aHi-1-x] == c.b[bHi-1-y] })
			if other := delta - k; delta&1 == 0 && -d <= other && other <= d && at >= 0 && at+forward[most+other] >= n {
				return aHi - at, bHi - (at - k), true
			}
		}
	}
	return 0, 0, false
}

// furthest extends diagonal k by its d-th edit and the equal items after it. It returns -1 for a
// diagonal outside the matrix.
func (c *comparer) furthest(v []int, most, k, n, m int, same func(x, y int) bool) int {
	x := -1
	if i := most + k + 1; i < len(v) && v[i] >= 0 && v[i]-k <= m {
		x = v[i] // adds an item of b
	}
	if i := most + k - 1; i >= 0 && v[i] >= x && v[i] >= 0 && v[i] < n {
		x = v[i] + 1 // removes an item of a
	}
	if x < 0 {
		v[most+k] = -1
		return -1
	}
	y := x - k
	for x < n && y < m && same(x, y) {
		x++
		y++
		*c.steps--
	}
	v[most+k] = x
	return x
}
