package assign

import (
	"slices"
	"strings"
	"time"
)

// Visit is one robot's visit of one page.
type Visit struct {
	URL, Robot string
	At         time.Time
	Digest     string
}

// Verdict says how a robot's pages compare with its peers'.
type Verdict struct {
	Robot     string
	Compared  int    // pages that could be compared, each by its latest comparable visit
	Differing int    // of those, the pages that differ
	Odd       bool   // more pages differ than chance explains
	Example   string // the first URL that differs
}

// A robot is odd if at least leastPages pages differ, and at least leastShare of those compared.
const (
	leastPages = 3
	leastShare = 0.05
)

// Judge compares the visits of one host. It returns a verdict for each robot, by name.
func Judge(visits []Visit) []Verdict {
	visits = slices.Clone(visits)
	slices.SortFunc(visits, func(a, b Visit) int {
		if c := strings.Compare(a.URL, b.URL); c != 0 {
			return c
		}
		return a.At.Compare(b.At)
	})
	verdicts := map[string]*Verdict{}
	for _, v := range visits {
		if verdicts[v.Robot] == nil {
			verdicts[v.Robot] = &Verdict{Robot: v.Robot}
		}
	}
	for from := 0; from < len(visits); {
		to := from
		for to < len(visits) && visits[to].URL == visits[from].URL {
			to++
		}
		page := visits[from:to]
		from = to
		for robot, verdict := range verdicts {
			verdict.add(page, robot)
		}
	}
	list := make([]Verdict, 0, len(verdicts))
	for _, v := range verdicts {
		v.Odd = v.Differing >= leastPages && float64(v.Differing) >= leastShare*float64(v.Compared)
		list = append(list, *v)
	}
	slices.SortFunc(list, func(a, b Verdict) int { return strings.Compare(a.Robot, b.Robot) })
	return list
}

// add counts one page, by the robot's latest visit that votes can judge.
func (v *Verdict) add(page []Visit, robot string) {
	var peers []Visit
	for _, other := range page {
		if other.Robot != robot {
			peers = append(peers, other)
		}
	}
	if goesBack(peers) {
		return
	}
	for _, own := range slices.Backward(page) {
		if own.Robot != robot {
			continue
		}
		with, against, ok := votes(own, peers)
		if !ok {
			continue
		}
		v.Compared++
		if against > with {
			if v.Differing++; v.Example == "" {
				v.Example = own.URL
			}
		}
		return
	}
}

// votes compares a visit with the peers' visits next to it. with is the number of peers that got
// the same page before or after it. against is the largest number of peers that got one other page,
// the same before and after it. ok is false if nothing can be said.
func votes(own Visit, peers []Visit) (with, against int, ok bool) {
	before, after := map[string]string{}, map[string]string{} // digest of the nearest visit, by peer
	for _, p := range peers {
		if !p.At.After(own.At) {
			before[p.Robot] = p.Digest
		}
		if _, have := after[p.Robot]; !have && !p.At.Before(own.At) {
			after[p.Robot] = p.Digest
		}
	}
	peersOf := map[string]map[string]bool{} // by digest
	for _, side := range []map[string]string{before, after} {
		for robot, digest := range side {
			if peersOf[digest] == nil {
				peersOf[digest] = map[string]bool{}
			}
			peersOf[digest][robot] = true
		}
	}
	lasting := func(digest string) bool {
		had := func(side map[string]string) bool {
			for _, d := range side {
				if d == digest {
					return true
				}
			}
			return false
		}
		return had(before) && had(after)
	}
	for digest, robots := range peersOf {
		switch {
		case digest == own.Digest:
			with = len(robots)
		case lasting(digest):
			against = max(against, len(robots))
		}
	}
	return with, against, with > 0 || against > 0
}

// goesBack reports whether a peer got one content of a page, then another, and then the first
// again.
func goesBack(peers []Visit) bool {
	past := map[string]map[string]bool{} // by robot: digests that later ones have replaced
	last := map[string]string{}
	for _, p := range peers {
		if past[p.Robot][p.Digest] {
			return true
		}
		if d, have := last[p.Robot]; have && d != p.Digest {
			if past[p.Robot] == nil {
				past[p.Robot] = map[string]bool{}
			}
			past[p.Robot][d] = true
		}
		last[p.Robot] = p.Digest
	}
	return false
}
