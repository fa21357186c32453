package webpage_test

import (
	"bytes"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/webpage"
)

// english are the words of a page.
var english = webpage.Page{Site: &webpage.Site{}, Lang: "en"}

// begins are n times, each a step after the last, from midnight of 21 November on.
func begins(n int, next func(t time.Time) time.Time) (all []time.Time) {
	at := time.Date(2026, 11, 21, 0, 0, 0, 0, time.FixedZone("JST", 9*3600))
	for range n {
		all = append(all, at)
		at = next(at)
	}
	return all
}

func hour(t time.Time) time.Time { return t.Add(time.Hour) }
func day(t time.Time) time.Time  { return t.AddDate(0, 0, 1) }

// draw returns the markup of a chart.
func draw(t *testing.T, c webpage.Chart) string {
	t.Helper()
	var text bytes.Buffer
	testkit.Must(t, template.Must(template.New("").Parse(webpage.ChartText())).ExecuteTemplate(&text, "chart", c))
	return text.String()
}

// The axis ends at a round amount that is not below the largest, and its middle is round too.
func TestAxisIsRound(t *testing.T) {
	for _, c := range []struct {
		unit      webpage.Unit
		most      float64
		top, half string
	}{
		{webpage.UnitCount, 0, "2", "1"},
		{webpage.UnitCount, 1, "2", "1"},
		{webpage.UnitCount, 7, "8", "4"},
		{webpage.UnitCount, 10, "10", "5"},
		{webpage.UnitCount, 1817, "2,000", "1,000"},
		{webpage.UnitCount, 2001, "3,000", "1,500"},
		{webpage.UnitCount, 81e6, "100,000,000", "50,000,000"},
		{webpage.UnitBytes, 5_100_000, "6.0 MB", "3.0 MB"},
		{webpage.UnitBytes, 999_999, "1.0 MB", "500 kB"},
		{webpage.UnitRate, 68e6, "80 MB/s", "40 MB/s"},
	} {
		got := webpage.NewChart(english, "x", c.unit, webpage.NameAxis("Edition", []string{"a"}), webpage.Series{Values: []float64{c.most}})
		if got.Top != c.top || got.Half != c.half {
			t.Errorf("%v up to %v: %s and %s, want %s and %s", c.unit, c.most, got.Half, got.Top, c.half, c.top)
		}
	}
}

// Below every chart of time stand three to five times, at round places; fewer where it has fewer
// columns.
func TestTicksAreFewAndRound(t *testing.T) {
	month := func(t time.Time) time.Time { return t.AddDate(0, 1, 1-t.Day()) }
	for _, c := range []struct {
		name  string
		next  func(time.Time) time.Time
		n     int
		ticks []string
	}{
		{"hours of two days", hour, 49, []string{"11-21", "12:00", "11-22", "12:00", "11-23"}},
		{"hours of six days", hour, 6 * 24, []string{"11-22", "11-24", "11-26"}},
		{"half a day", hour, 12, []string{"11-21", "03:00", "06:00", "09:00"}},
		{"a month of days", day, 31, []string{"11-23", "11-30", "12-07", "12-14", "12-21"}},
		{"two days", day, 2, []string{"2026-11-21", "2026-11-22"}},
		{"one day", day, 1, []string{"2026-11-21"}},
		{"13 months", month, 13, nil},
	} {
		axis := begins(c.n, c.next)
		if c.name == "13 months" {
			for i := range axis {
				axis[i] = time.Date(2026, time.Month(i+1), 1, 0, 0, 0, 0, time.UTC)
			}
			c.ticks = []string{"2026-01", "2026-04", "2026-07", "2026-10", "2027-01"}
		}
		got := webpage.NewChart(english, "x", webpage.UnitCount, webpage.TimeAxis(english, axis), webpage.Series{Values: make([]float64, c.n)})
		var ticks []string
		for _, m := range got.Ticks {
			ticks = append(ticks, m.Text)
		}
		if !slices.Equal(ticks, c.ticks) {
			t.Errorf("%s: %q, want %q", c.name, ticks, c.ticks)
		}
	}
	for n := range 200 {
		for name, next := range map[string]func(time.Time) time.Time{"hours": hour, "days": day} {
			got := webpage.NewChart(english, "x", webpage.UnitCount, webpage.TimeAxis(english, begins(n, next)), webpage.Series{Values: make([]float64, n)})
			if len(got.Ticks) > 5 || len(got.Ticks) < min(3, n) {
				t.Errorf("%d %s have %d ticks", n, name, len(got.Ticks))
			}
		}
	}
}

// What is not known is a gap in the line at 0 and is called that; 0 is neither.
func TestGapIsNotZero(t *testing.T) {
	got := webpage.NewChart(english, "x", webpage.UnitCount, webpage.TimeAxis(english, begins(5, hour)), webpage.Series{Values: []float64{1, 0, webpage.NoData, webpage.NoData, 2}})
	if got.Base != "M0 100H2M4 100H5" {
		t.Errorf("the line at 0 is %s", got.Base)
	}
	var amounts []string
	for _, c := range got.Columns {
		amounts = append(amounts, c.Parts[0].Amount)
	}
	if want := []string{"1", "0", "no data", "no data", "2"}; !slices.Equal(amounts, want) {
		t.Errorf("%q, want %q", amounts, want)
	}
	if bars := strings.Count(got.Legend[0].Path, "M"); bars != 2 {
		t.Errorf("%d bars: %s", bars, got.Legend[0].Path)
	}
}

// Robots stand on one another up to their sum. Where there are more than colours, the small ones
// are one, and nothing is lost.
func TestRobotsAreStacked(t *testing.T) {
	two := webpage.NewChart(english, "x", webpage.UnitCount, webpage.TimeAxis(english, begins(2, hour)),
		webpage.Series{Name: "etl", Values: []float64{4, webpage.NoData}}, webpage.Series{Name: "waseda", Values: []float64{6, webpage.NoData}})
	if two.Top != "10" || two.Columns[0].Total != "10" || two.Columns[1].Total != "" || !strings.HasPrefix(two.Legend[0].Path, "M0.1 100") || !strings.HasPrefix(two.Legend[1].Path, "M0.1 60") {
		t.Errorf("%+v", two)
	}
	var robots []webpage.Series
	for i := range 9 {
		robots = append(robots, webpage.Series{Name: fmt.Sprint("robot", i), Values: []float64{float64(10 - i), math.NaN()}})
	}
	slices.Reverse(robots)
	many := webpage.NewChart(english, "x", webpage.UnitCount, webpage.TimeAxis(english, begins(2, hour)), robots...)
	var names []string
	for _, k := range many.Legend {
		names = append(names, k.Name)
	}
	if want := []string{"robot4", "robot3", "robot2", "robot1", "robot0", "4 others"}; !slices.Equal(names, want) || many.Columns[0].Total != "54" || many.Columns[0].Parts[5].Amount != "14" || many.Columns[1].Parts[5].Amount != "no data" {
		t.Errorf("%q, want %q: %+v", names, want, many.Columns)
	}
}

// A strict Content-Security-Policy allows the markup, names are text, and what is drawn can be read
// without seeing it.
func TestMarkup(t *testing.T) {
	const bad = `<img src=x onerror="alert(1)">`
	text := draw(t, webpage.NewChart(english, bad, webpage.UnitBytes, webpage.NameAxis(bad, []string{bad, "2"}), webpage.Series{Name: bad, Values: []float64{1000, 0}}, webpage.Series{Name: "b", Values: []float64{2000, 0}}))
	for _, no := range []string{"style=", "<img", "<script", "onerror=\""} {
		if strings.Contains(text, no) {
			t.Errorf("the markup has %s: %s", no, text)
		}
	}
	for _, want := range []string{`role="img"><title>`, `aria-label="`, `<th class="n">b</th>`, `<td class="n">2.0 kB</td>`, `<td class="n">3.0 kB</td>`, `Total 3.0 kB`} {
		if !strings.Contains(text, want) {
			t.Errorf("the markup lacks %s: %s", want, text)
		}
	}
	if tabs := strings.Count(text, `tabindex="0"`); tabs != 2 { // one column and the table, so that Tab does not stop at each column
		t.Errorf("Tab stops %d times in a chart", tabs)
	}
	if empty := draw(t, webpage.NewChart(english, "x", webpage.UnitCount, webpage.TimeAxis(english, nil), webpage.Series{})); strings.Contains(empty, "<table") || strings.Contains(empty, "listitem") {
		t.Errorf("nothing is drawn as %s", empty)
	}
}
