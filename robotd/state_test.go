package robotd

import (
	"path/filepath"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/robotd/config"
)

// A cycle that ran while the machine's clock was a year ahead does not keep the robot waiting for a
// year once the clock is right, nor has a cycle that was broken off a year of time.
func TestCycleOfAClockThatWasAhead(t *testing.T) {
	ahead := time.Now().AddDate(1, 0, 0)
	for name, r := range map[string]record{
		"ended":      {Number: 7, Began: ahead, Ended: ahead.Add(time.Hour)},
		"set right":  {Number: 7, Began: ahead, Ended: time.Now()},
		"broken off": {Number: 7, Began: ahead},
	} {
		path := filepath.Join(t.TempDir(), "cycle.json")
		testkit.Must(t, config.SaveJSON(path, r))
		s, err := OpenState(path)
		testkit.Must(t, err)
		got := s.get()
		next, ok := config.Plan{Every: 24 * time.Hour}.NextCycle(got.Began, got.Ended)
		if latest := time.Now().Add(24 * time.Hour); !ok || next.After(latest) || got.Number != 7 || got.Ended.IsZero() != r.Ended.IsZero() {
			t.Errorf("%s: %+v, the next cycle begins at %v", name, got, next)
		}
		if again := s.get(); !again.Began.Equal(got.Began) {
			t.Errorf("%s: the cycle began at %v, and then at %v", name, got.Began, again.Began)
		}
	}
}
