package loop

import (
	"math/rand/v2"
	"time"
)

// Backoff is the wait after temporary failures.
type Backoff struct {
	Min, Max time.Duration // after the first, and after many
}

// After returns the wait after a number of failures in a row. It doubles each time, up to Max. Half
// of it is random, so that processes that failed together do not try again together.
func (b Backoff) After(failures int) time.Duration {
	wait := b.Max
	if shift := failures - 1; b.Min <= b.Max>>shift {
		wait = b.Min << shift
	}
	return wait/2 + rand.N(wait/2+1)
}
