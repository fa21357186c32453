package webpage

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"
)

// chartText defines the template "chart", which every page has. Its data is a Chart.
//
//go:embed chart.html
var chartText string

// Axis describes the columns of a chart.
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

// Series has the amounts of one robot, account or other source: one for each column of the axis,
// none of them negative. NoData stands for an unknown amount; 0 is a known amount. The line at 0
// has a gap at columns where all series have NoData.
type Series struct {
	Name   string
	Values []float64
}

// NoData is the value of a column about which nothing is known.
var NoData = math.NaN()

// Chart is a drawing of amounts over time as stacked bars in inline SVG: with an axis, a legend, a
// value for each column on hover and focus, and a table of the same values for people who do not
// see the drawing. Its markup has no style attributes and needs no script. The colours are the
// custom properties --s1 to --s6 of the style sheet. NewChart makes a Chart, and the template
// "chart" writes it.
type Chart struct {
	Page
	Name      string
	Axis      string // the name of the axis, such as "Time"
	Top, Half string // amounts at the upper end of the drawing and in its middle
	Zero      string
	Slots     int // width of the drawing in columns; slots without a column are empty
	Base      string
	Legend    []chartKey // one key for each series
	Columns   []chartColumn
	Ticks     []chartMark
}

// Height returns the height of the drawing, in its own units.
func (Chart) Height() int { return height }

// chartKey is a series in the legend, with the path that draws its bars.
type chartKey struct {
	Class, Name string
	Path        string
}

// chartColumn has the texts of one column, for hover and focus and for the table.
type chartColumn struct {
	Name  string
	Parts []chartPart // one of each series
	Total string      // empty if there is one series, or no amount is known
	Late  bool        // the column is in the right half
	Shown bool        // the column has an amount other than 0
}

// chartPart is the amount of a series in a column.
type chartPart struct {
	Class, Name, Amount string
	Told                bool // the amount is not 0
}

// chartMark is a text below the drawing.
type chartMark struct {
	At     float64 // per cent from the left
	Anchor string  // start, middle or end
	Text   string
}

const (
	height      = 100
	leastHeight = 1.5 // of a bar, so that small amounts can be seen
	between     = 0.7 // gap between a bar and the bar that stands on it
	barWidth    = 0.8
	leastSlots  = 6   // so that a few columns are not too wide
	mostColumns = 168 // a week's hours; of more columns, the last are drawn
	mostSeries  = 6   // the number of colours
)

// NewChart draws series stacked on one another, the first at the bottom. If there are too many
// columns, it draws the last ones. If there are too many series, it draws the sum of the smallest
// ones as one series. Several series need amounts that can be added up: pages can, mean rates
// cannot.
func NewChart(p Page, name string, unit Unit, axis Axis, series ...Series) Chart {
	series = fewer(p, series)
	cut := max(0, len(axis.columns)-mostColumns)
	n := len(axis.columns) - cut
	c := Chart{Page: p, Name: name, Axis: axis.name, Slots: max(n, leastSlots)}
	sums, known := make([]float64, n), make([]bool, n)
	for _, s := range series {
		for i, v := range s.Values[cut:] {
			if !math.IsNaN(v) {
				sums[i], known[i] = sums[i]+v, true
			}
		}
	}
	top := unit.top(slices.Max(append(sums, 0)))
	c.Top, c.Half, c.Zero = unit.write(p, top), unit.write(p, top/2), unit.write(p, 0)
	for i := range n {
		c.Columns = append(c.Columns, chartColumn{Name: axis.columns[cut+i], Late: i >= c.Slots/2, Shown: sums[i] > 0})
	}
	below := make([]float64, n) // height of the bars so far, in units of the drawing
	for k, s := range series {
		key := chartKey{Class: fmt.Sprint("s", k+1), Name: s.Name}
		var path strings.Builder
		for i, v := range s.Values[cut:] {
			part := chartPart{key.Class, s.Name, p.T("no data"), v != 0}
			if !math.IsNaN(v) {
				part.Amount = unit.write(p, v)
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
			c.Columns[i].Total = unit.write(p, sums[i])
		}
	}
	c.Base = base(known)
	c.mark(axis.ticks, cut)
	return c
}

// Several reports whether the chart has several series, and so a legend.
func (c Chart) Several() bool { return len(c.Legend) > 1 }

// Summary returns the text that a screen reader says for the drawing.
func (c Chart) Summary() string {
	if !c.Any() {
		return c.T("%s: nothing", c.Name)
	}
	return c.T("%s: bars from %s to %s; the table has their values", c.Name, c.Zero, c.Top)
}

// Rest returns an element for each slot without a column, for the template's loop.
func (c Chart) Rest() []struct{} { return make([]struct{}, c.Slots-len(c.Columns)) }

// Any reports whether any amount is more than 0.
func (c Chart) Any() bool {
	return slices.ContainsFunc(c.Columns, func(one chartColumn) bool { return one.Shown })
}

// fewer returns all series or, if there are more series than colours, the largest series, in the
// given order, and the sum of the others.
func fewer(p Page, all []Series) []Series {
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
	kept, rest := make([]Series, 0, mostSeries), Series{Name: p.T("%d others", len(all)-mostSeries+1)}
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

// base draws the line at 0. It has gaps at columns about which nothing is known.
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

// mark places each tick below the middle of its column, if that column is drawn.
func (c *Chart) mark(ticks []tick, cut int) {
	for _, t := range ticks {
		if t.column < cut {
			continue
		}
		at := round(100 * (float64(t.column-cut) + 0.5) / float64(c.Slots))
		m := chartMark{At: at, Anchor: "middle", Text: t.text}
		switch {
		case at < 6:
			m.At, m.Anchor = 0, "start"
		case at > 94:
			m.At, m.Anchor = 100, "end"
		}
		c.Ticks = append(c.Ticks, m)
	}
}

// round rounds to one decimal, which keeps the drawing's markup short.
func round(x float64) float64 { return math.Round(x*10) / 10 }
