package web

import (
	"math"

	"sheaf/internal/webpage"
)

// timeline draws the versions of a page over time, as SVG. Each bar is a part of the time between
// the first and the last version; the more versions it has, the higher it is.
type timeline struct {
	Width, Height float64
	Bars          []timelineBar
	From, To      string // days of the first and the last version
}

// timelineBar is a part of the time that has versions.
type timelineBar struct {
	X, Y, W, H float64
	Path       string // path of its newest version besides the shown one; empty: no such version
	Label      string
	Now        bool // the version that is shown is one of its versions
}

const (
	timelineParts  = 48
	timelineWidth  = 288.0
	timelineHeight = 20.0
	lowestBar      = 6.0
)

// newTimeline draws all versions, and marks version i, which is shown. It returns nil if all
// versions are of one time.
func newTimeline(p webpage.Page, all mementos, i int) *timeline {
	first, last := all[0].Time, all[len(all)-1].Time
	span := last.Sub(first)
	if span <= 0 {
		return nil
	}
	t := &timeline{Width: timelineWidth, Height: timelineHeight, From: p.Date(first), To: p.Date(last)}
	var parts [timelineParts][]int // indexes of versions
	most := 0
	for j, c := range all {
		n := int(float64(c.Time.Sub(first)) / float64(span) * (timelineParts - 1))
		parts[n] = append(parts[n], j)
		most = max(most, len(parts[n]))
	}
	const step = timelineWidth / timelineParts
	for n, versions := range parts {
		if len(versions) == 0 {
			continue
		}
		oldest, newest := all[versions[0]], all[versions[len(versions)-1]]
		bar := timelineBar{X: step * float64(n), W: step - 1, Label: p.Second(newest.Time)}
		bar.H = math.Round(lowestBar + (timelineHeight-lowestBar)*math.Log1p(float64(len(versions)))/math.Log1p(float64(most)))
		bar.Y = timelineHeight - bar.H
		if len(versions) > 1 {
			bar.Label = p.T("%d versions, %s to %s", len(versions), p.Second(oldest.Time), p.Second(newest.Time))
		}
		for _, j := range versions {
			if j == i {
				bar.Now = true
			} else {
				bar.Path = path(all[j])
			}
		}
		t.Bars = append(t.Bars, bar)
	}
	return t
}
