package webpage

import "math"

// Chart is a chart of bars, drawn as SVG by the layout's template "chart". The reader of a screen
// hears its Name; each bar's Label is its tooltip.
type Chart struct {
	Name  string
	Most  string // the largest amount
	From  string // what stands below the first bar, and below the last
	To    string
	Bars  []Bar
	Width int  // of the drawing
	Few   bool // the bars do not reach its end
}

// Bar is one bar: its place in a drawing of chartHeight units.
type Bar struct {
	X, Y, W, H float64
	Label      string
	Other      bool // drawn in the second colour
}

// Value is what NewChart draws as one bar.
type Value struct {
	Amount float64
	Label  string
	Below  string // what stands below the bar, where that is the first or last
	Other  bool
}

const (
	chartWidth  = 640
	chartHeight = 120
	widestBar   = 40
	mostBars    = 120
)

// Height is the drawing's, for templates.
func (Chart) Height() int { return chartHeight }

// NewChart scales values, which are not negative, to the largest. Of very many the last are drawn.
// Write gives an amount as it is read.
func NewChart(name string, values []Value, write func(float64) string) Chart {
	values = values[max(0, len(values)-mostBars):]
	c := Chart{Name: name, Width: chartWidth}
	most := 0.0
	for _, v := range values {
		most = max(most, v.Amount)
	}
	if len(values) > 0 {
		c.Most, c.From, c.To = write(most), values[0].Below, values[len(values)-1].Below
	}
	step := math.Min(widestBar, float64(chartWidth)/float64(max(1, len(values))))
	c.Few = step*float64(len(values)) < 0.9*chartWidth
	for i, v := range values {
		height := 0.0
		if most > 0 {
			height = math.Max(v.Amount/most*chartHeight, math.Copysign(1, v.Amount)) // what is there can be seen
		}
		if v.Amount == 0 {
			height = 0
		}
		c.Bars = append(c.Bars, Bar{X: round(float64(i) * step), Y: round(chartHeight - height), W: round(step * 0.8), H: round(height), Label: v.Label, Other: v.Other})
	}
	return c
}

// round keeps a drawing short.
func round(x float64) float64 { return math.Round(x*10) / 10 }
