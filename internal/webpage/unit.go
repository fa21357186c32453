package webpage

import (
	"math"
	"strconv"
	"time"
)

// Unit decides how amounts are written and where an axis ends.
type Unit int

// The units of the amounts that charts show.
const (
	UnitCount   Unit = iota // whole things, such as pages
	UnitDecimal             // such as pages a second
	UnitBytes
	UnitRate // bytes a second
	UnitSeconds
)

// write returns an amount as text. Counts and decimals have no unit in the text.
func (u Unit) write(p Page, amount float64) string {
	switch u {
	case UnitBytes:
		return p.BytesOf(amount)
	case UnitRate:
		return p.Rate(amount)
	case UnitSeconds:
		return p.Took(time.Duration(amount * float64(time.Second)))
	case UnitCount:
		return p.Number(int64(math.Round(amount)))
	}
	if amount >= 100 {
		return p.Number(int64(math.Round(amount)))
	}
	return strconv.FormatFloat(amount, 'g', 2, 64)
}

// times are the possible upper ends of an axis, in seconds, up to a day.
var times = []float64{2, 4, 10, 20, 60, 120, 240, 600, 1200, 3600, 7200, 14400, 28800, 43200, 86400}

// top returns the upper end of an axis whose largest amount is most. The end is a round number, and
// so is its half.
func (u Unit) top(most float64) float64 {
	scale := 1.0
	switch {
	case u == UnitCount || u == UnitBytes || u == UnitRate:
		most = max(most, 2)
	case u == UnitSeconds:
		for _, t := range times {
			if most <= t {
				return t
			}
		}
		scale = times[len(times)-1]
	case most <= 0:
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(most/scale)))
	for _, digit := range []float64{1, 2, 3, 4, 5, 6, 8} {
		if end := digit * power * scale; end >= most && !(u == UnitCount && math.Mod(end, 2) != 0) && !(u != UnitCount && digit == 3) {
			return end
		}
	}
	return 10 * power * scale
}
