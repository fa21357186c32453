package loop

import (
	"testing"
	"time"
)

// The wait doubles with each failure up to Max, whatever Min is and however many failures there
// are.
func TestBackoff(t *testing.T) {
	for failures := 1; failures < 200; failures++ {
		for _, least := range []time.Duration{time.Nanosecond, time.Second, 20 * time.Second, 2 * time.Hour} {
			want := least
			for n := 1; n < failures && want < time.Hour; n++ {
				want *= 2
			}
			want = min(want, time.Hour)
			if wait := (Backoff{Min: least, Max: time.Hour}).After(failures); wait < want/2 || wait > want {
				t.Errorf("from %v, after %d failures: %v, want half of %v or more", least, failures, wait, want)
			}
		}
	}
}
