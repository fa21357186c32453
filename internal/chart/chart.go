package chart

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Template defines "chart", whose data is a Chart.
//
//go:embed chart.html
var Template string

// Words writes in the reader's language. webpage.Page does.
type Words interface {
	T(english string, values ...any) string
	Number(n any) string
	Took(d time.Duration) string
	BytesOf(n float64) string
	Rate(perSecond float64) string
}

// Axis is what the columns of a chart stand for.
type Axis struct {
	name    string   // of all columns together
	columns []string // the name of each
	ticks   []tick   // below the drawing
}

// tick is a mark below a column.
type tick struct {
	column int
	text   string
}

// Series are amounts of one robot, account or other source: one for each column of the axis, none
// of them negative. NoData stands for a column about which nothing is known. It is drawn as a gap,
// and 0 is not.
type Series struct {
	Name   string
	Values []float64
}

// NoData is the value of a column about which nothing is known.
var NoData = math.NaN()

// Chart is a drawing.
type Chart struct {
	Words
	Name      string
	Axis      string // what the columns are, such as "Time"
	Top, Half string // amounts at the upper end of the drawing and in its middle
	Zero      string
	Slots     int // width of the drawing: of each column 1, and the rest is empty
	Base      string
	Legend    []Key // nil: there is one series
	Columns   []Column
	Ticks     []Mark
}

// Height is the drawing's, in its own units.
func (Chart) Height() int { return height }

// Key is a series in the legend, with the path that draws its bars.
type Key struct {
	Class, Name string
	Path        string
}

// Column is what is told of one column.
type Column struct {
	Name  string
	Parts []Part // one of each series
	Total string // empty: there is one series
	Late  bool   // it is in the right half
	Shown bool   // anything but 0 is in it
}

// Part is the amount of a series in a column.
type Part struct {
	Class, Name, Amount string
	Told                bool // it is not 0
}

// Mark is a text below the drawing.
type Mark struct {
	At     float64 // per cent from the left
	Anchor string  // start, middle or end
	Text   string
}

const (
	height      = 100
	leastHeight = 1.5 // of a bar, so that what is there can be seen
	between     = 0.7 // of a bar and the one that stands on it
	barWidth    = 0.8
	leastSlots  = 6   // so that two columns are not two walls
	mostColumns = 168 // a week's hours; of more, the last are drawn
	mostSeries  = 6   // colours
)

// New draws series stacked on one another, the first at the bottom. Of many columns the last are
// drawn. Of many series the largest are drawn apart, and the others together. Only amounts that can
// be added up may have several series: pages can, mean rates cannot.
func New(w Words, name string, unit Unit, axis Axis, series ...Series) Chart {
	series = fewer(w, series)
	cut := max(0, len(axis.columns)-mostColumns)
	n := len(axis.columns) - cut
	c := Chart{Words: w, Name: name, Axis: axis.name, Slots: max(n, leastSlots)}
	sums, known := make([]float64, n), make([]bool, n)
	for _, s := range series {
		for i, v := range s.Values[cut:] {
			if !math.IsNaN(v) {
				sums[i], known[i] = sums[i]+v, true
			}
		}
	}
	top := unit.top(slices.Max(append(sums, 0)))
	c.Top, c.Half, c.Zero = unit.write(w, top), unit.write(w, top/2), unit.write(w, 0)
	for i := range n {
		c.Columns = append(c.Columns, Column{Name: axis.columns[cut+i], Late: i >= c.Slots/2, Shown: sums[i] > 0})
	}
	below := make([]float64, n) // what is drawn already, in units of the drawing
	for k, s := range series {
		key := Key{Class: fmt.Sprint("s", k+1), Name: s.Name}
		var path strings.Builder
		for i, v := range s.Values[cut:] {
			part := Part{key.Class, s.Name, w.T("no data"), v != 0}
			if !math.IsNaN(v) {
				part.Amount = unit.write(w, v)
			}
			if v > 0 {
				tall := max(v/top*height, leastHeight)
				fmt.Fprintf(&path, "M%g %gh%gv-%gh-%gz", float64(i)+(1-barWidth)/2, round(height-below[i]), barWidth, round(tall-between), barWidth)
				below[i] += tall
			}
			c.Columns[i].Parts = append(c.Columns[i].Parts, part)
		}
		key.Path = path.String()
		c.Legend = append(c.Legend, key)
	}
	for i := range c.Columns {
		if len(series) > 1 && known[i] {
			c.Columns[i].Total = unit.write(w, sums[i])
		}
	}
	c.Base = base(known)
	c.mark(axis.ticks, cut)
	return c
}

// Several reports whether the chart has a legend.
func (c Chart) Several() bool { return len(c.Legend) > 1 }

// Summary is what a screen reader says of the drawing.
func (c Chart) Summary() string {
	if !c.Any() {
		return c.T("%s: nothing", c.Name)
	}
	return c.T("%s: bars from %s to %s; the table has their values", c.Name, c.Zero, c.Top)
}

// Rest are the slots without a column.
func (c Chart) Rest() []struct{} { return make([]struct{}, c.Slots-len(c.Columns)) }

// Any reports whether anything is drawn.
func (c Chart) Any() bool {
	return slices.ContainsFunc(c.Columns, func(one Column) bool { return one.Shown })
}

// fewer returns the largest series in their order and, where there are more than colours, the sum
// of all others as the last.
func fewer(w Words, all []Series) []Series {
	if len(all) <= mostSeries {
		return all
	}
	sum := func(s Series) (n float64) {
		for _, v := range s.Values {
			if !math.IsNaN(v) {
				n += v
			}
		}
		return n
	}
	by := slices.Clone(all)
	slices.SortStableFunc(by, func(a, b Series) int { return cmp.Compare(sum(b), sum(a)) })
	least := by[mostSeries-2]
	kept, rest := make([]Series, 0, mostSeries), Series{Name: w.T("%d others", len(all)-mostSeries+1)}
	rest.Values = slices.Repeat([]float64{NoData}, len(least.Values))
	large := make(map[string]bool)
	for _, s := range by[:mostSeries-1] {
		large[s.Name] = true
	}
	for _, s := range all {
		if large[s.Name] {
			kept = append(kept, s)
			continue
		}
		for i, v := range s.Values {
			switch {
			case math.IsNaN(v):
			case math.IsNaN(rest.Values[i]):
				rest.Values[i] = v
			default:
				rest.Values[i] += v
			}
		}
	}
	return append(kept, rest)
}

// base draws the line at 0. It is broken where nothing is known.
func base(known []bool) string {
	var path strings.Builder
	for i := 0; i < len(known); {
		end := i + 1
		for end < len(known) && known[end] == known[i] {
			end++
		}
		if known[i] {
			fmt.Fprintf(&path, "M%d %dH%d", i, height, end)
		}
		i = end
	}
	return path.String()
}

// mark places the ticks of the columns that are drawn, each below the middle of its column.
func (c *Chart) mark(ticks []tick, cut int) {
	for _, t := range ticks {
		if t.column < cut {
			continue
		}
		at := round(100 * (float64(t.column-cut) + 0.5) / float64(c.Slots))
		m := Mark{At: at, Anchor: "middle", Text: t.text}
		switch {
		case at < 6:
			m.At, m.Anchor = 0, "start"
		case at > 94:
			m.At, m.Anchor = 100, "end"
		}
		c.Ticks = append(c.Ticks, m)
	}
}

// round keeps a drawing short.
func round(x float64) float64 { return math.Round(x*10) / 10 }
