//go:build !linux

package polite

import "time"

var began = time.Now()

// bootTime returns a random name for this process, so that no lease outlasts the process, and the
// time since its start. Of two clocks it takes the one that shows more, since one stops while the
// machine sleeps, and the other may be set back.
func bootTime() (boot string, now time.Duration) {
	t := time.Now()
	return processID(), max(t.Sub(began), t.Round(0).Sub(began.Round(0)))
}
