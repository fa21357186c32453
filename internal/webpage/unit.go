package webpage

import "math"

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
