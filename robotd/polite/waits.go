package polite

import (
	"math"
	"slices"
	"time"
)

// waits has the times to the first byte of the last pages at an address, in a byte each.
type waits struct {
	scales []uint8 // see scale
	next   int     // place of the oldest, once there are mostWaits
}

// A page's answer is late if it took more than twice the median of the last pages, and few of the
// pages before took as long. So a site whose pages differ much, or come in sections, has hardly any
// late answers. A server that stays slow changes the median: once half of the pages that count were
// slow, a slow answer is the usual one.
const (
	mostWaits   = 512
	medianWaits = 32                    // last pages whose median counts
	leastWaits  = 8                     // before which no answer is late
	lateSlack   = 20 * time.Millisecond // an answer that is later only by this says nothing about the server
	fewPages    = 4                     // of many pages, a twentieth counts as few
	octave      = 16                    // steps of a scale in which a time doubles
)

// scale returns the logarithm of a time: 0 for a millisecond or less, 255 for a minute or more.
func scale(wait time.Duration) uint8 {
	return uint8(min(max(octave*math.Log2(float64(wait)/float64(time.Millisecond)), 0), math.MaxUint8))
}

// late reports whether an answer is late, compared with earlier answers.
func (w *waits) late(wait time.Duration) bool {
	n := len(w.scales)
	if n < leastWaits {
		return false
	}
	last := make([]uint8, 0, medianWaits)
	for i := range min(n, medianWaits) {
		last = append(last, w.scales[(w.next-1-i+2*n)%n])
	}
	slices.Sort(last)
	median, this := last[len(last)/2], scale(wait)
	if int(this) <= int(median)+octave || this <= scale(lateSlack+time.Duration(float64(time.Millisecond)*math.Exp2(float64(median)/octave))) {
		return false
	}
	asLate := 0
	for _, s := range w.scales {
		if s >= this {
			asLate++
		}
	}
	return asLate <= max(fewPages, n/20)
}

// add adds the time of an answer, in place of the oldest if there are mostWaits.
func (w *waits) add(wait time.Duration) {
	if len(w.scales) < mostWaits {
		w.scales = append(w.scales, scale(wait))
		return
	}
	w.scales[w.next] = scale(wait)
	w.next = (w.next + 1) % mostWaits
}
