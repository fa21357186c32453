package webpage

import (
	"math"
	"time"
)

const (
	fewestTicks = 3
	mostTicks   = 5
)

// NameAxis returns an axis of columns without a place in time, such as editions. name is the name
// of the axis.
func NameAxis(name string, columns []string) Axis {
	a := Axis{name: name, columns: columns}
	a.spread(func(i int) string { return columns[i] })
	return a
}

// TimeAxis returns an axis of columns that are periods of time, such as hours, days or months.
// begins has the beginning of each, in the reader's zone.
func TimeAxis(p Page, begins []time.Time) Axis {
	a := Axis{name: p.T("Time")}
	full, short := layouts(begins)
	for _, t := range begins {
		a.columns = append(a.columns, t.Format(full))
	}
	shown := begins[max(0, len(begins)-mostColumns):]
	first := len(begins) - len(shown)
	for _, s := range steps {
		var ticks []tick
		for i, t := range shown {
			if s.begins(t) {
				text := t.Format(short)
				if t.Hour() > 0 || t.Minute() > 0 {
					text = t.Format("15:04")
				}
				ticks = append(ticks, tick{first + i, text})
			}
		}
		if len(ticks) >= fewestTicks && len(ticks) <= mostTicks {
			a.ticks = ticks
			return a
		}
	}
	a.spread(func(i int) string { return begins[i].Format(full) })
	return a
}

// layouts returns the layouts of time for the columns' names and for the ticks.
func layouts(begins []time.Time) (full, short string) {
	days, months := true, len(begins) > 1
	for _, t := range begins {
		days = days && t.Hour() == 0 && t.Minute() == 0
		months = months && days && t.Day() == 1
	}
	switch {
	case months:
		return "2006-01", "2006-01"
	case days:
		return time.DateOnly, "01-02"
	}
	return "01-02 15:04", "01-02"
}

// step is the distance between two ticks.
type step struct {
	hours, days, months int // one of them is not 0
}

var steps = []step{{hours: 1}, {hours: 3}, {hours: 6}, {hours: 12}, {days: 1}, {days: 2}, {days: 7}, {days: 14}, {months: 1}, {months: 3}, {months: 6}, {months: 12}}

// begins reports whether a tick stands at t.
func (s step) begins(t time.Time) bool {
	if t.Minute() != 0 {
		return false
	}
	y, m, d := t.Date()
	switch {
	case s.hours > 0:
		return t.Hour()%s.hours == 0
	case s.days > 0:
		day := time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / (24 * 3600)
		return t.Hour() == 0 && (day+3)%int64(s.days) == 0 // weeks begin on Mondays
	}
	return t.Hour() == 0 && d == 1 && (int(m)-1)%s.months == 0
}

// spread puts up to three ticks at even distances, for axes without round times.
func (a *Axis) spread(text func(column int) string) {
	first := max(0, len(a.columns)-mostColumns)
	n := len(a.columns) - first
	marks := min(n, 3)
	for k := range marks {
		i := first
		if marks > 1 {
			i += k * (n - 1) / (marks - 1)
		}
		a.ticks = append(a.ticks, tick{i, text(i)})
	}
}

// Unit decides how amounts are written and where an axis ends.
type Unit int

// The units of the amounts that charts show.
const (
	UnitCount Unit = iota // whole things, such as pages
	UnitBytes
	UnitRate // bytes a second
)

// write returns an amount as text. Counts have no unit in the text.
func (u Unit) write(p Page, n float64) string {
	switch u {
	case UnitBytes:
		return amount(n) + "B"
	case UnitRate:
		return p.Rate(n)
	}
	return p.Number(int64(math.Round(n)))
}

// top returns the upper end of an axis whose largest amount is most. The end is a round number, and
// so is its half.
func (u Unit) top(most float64) float64 {
	most = max(most, 2)
	power := math.Pow(10, math.Floor(math.Log10(most)))
	for _, digit := range []float64{1, 2, 3, 4, 5, 6, 8} {
		if end := digit * power; end >= most && !(u == UnitCount && math.Mod(end, 2) != 0) && !(u != UnitCount && digit == 3) {
			return end
		}
	}
	return 10 * power
}
