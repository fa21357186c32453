// Package copies compares what several robots brought of one host, and finds those whose pages differ from
// their peers' beyond what time explains (paper 001, 4.1.1 allows hosts to be given to several). It is pure.
//
// Pages change, so two robots' copies may differ because they came at different times. But where
// peers found the same page before and after a robot's visit, the page was that page all the while: a robot
// that was given another one in between was given something else than they. So a page says something of a visit
// only if peers' visits with the same digest lie around it; a page that changes more often than
// it is visited says nothing of anybody, and neither does one that goes back to what it was.
//
// Of two robots that differ one cannot tell which is right: both are shown. Of three or more it is the one
// that has more of its peers against it than with it.
package copies

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

// Verdict is how a robot's pages compare.
type Verdict struct {
	Robot     string
	Compared  int    // pages whose latest visit that can be judged agrees with the peers, or does not
	Differing int    // of those, the ones that do not
	Odd       bool   // too many to be pages' own whims
	Example   string // the first URL that differs
}

// A robot is odd from so many differing pages on, and so many of those that were compared.
const (
	leastPages = 3
	leastShare = 0.05
)

// Judge compares the visits of one host. It gives a verdict for each robot, by name.
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

// add counts a page, by the robot's latest visit that peers' visits lie around.
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

// votes counts the peers that had, around a visit, the same as it, and those that had one other thing before
// and after it; ok is false where what they had tells nothing.
func votes(own Visit, peers []Visit) (with, against int, ok bool) {
	before, after := map[string]string{}, map[string]string{} // digest by peer, nearest in time
	for _, p := range peers {
		if !p.At.After(own.At) {
			before[p.Robot] = p.Digest
		}
		if _, have := after[p.Robot]; !have && !p.At.Before(own.At) {
			after[p.Robot] = p.Digest
		}
	}
	who := map[string]map[string]bool{} // peers by digest
	for _, side := range []map[string]string{before, after} {
		for robot, digest := range side {
			if who[digest] == nil {
				who[digest] = map[string]bool{}
			}
			who[digest][robot] = true
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
	for digest, robots := range who {
		switch {
		case digest == own.Digest:
			with = len(robots)
		case lasting(digest):
			against = max(against, len(robots))
		}
	}
	return with, against, with > 0 || against > 0
}

// goesBack reports whether a peer was given a page, then another, and then the first again.
func goesBack(peers []Visit) bool {
	past := map[string]map[string]bool{} // by robot, digests that were followed by others
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
