package testkit

import (
	"fmt"
	"sync"
	"time"
)

// Midday returns a zone in which it was between 12:00 and 13:00 at the first call in the test
// process. Tests whose result would change at midnight use it: there is no midnight for eleven
// hours. window.Parse knows the zone's name.
var Midday = sync.OnceValue(func() *time.Location {
	name := fmt.Sprintf("Etc/GMT%+d", time.Now().UTC().Hour()-12) // Etc/GMT+3 is three hours behind UTC
	zone, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return zone
})

// NextMidnight returns the time, in UTC, at which the day in Midday's zone ends.
func NextMidnight() time.Time {
	y, m, d := time.Now().In(Midday()).Date()
	return time.Date(y, m, d+1, 0, 0, 0, 0, Midday()).UTC()
}
