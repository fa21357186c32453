package certs

import (
	"testing"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
)

// Attempts have pauses between them, which grow with failures. A pause that began while the clock
// was a year ahead ends when the clock is right.
func TestPausesOfAttempts(t *testing.T) {
	d, err := db.Open(t.Context(), dbtest.Source(t))
	testkit.Must(t, err)
	defer d.Close()
	r, now := rows{d, "https://authority.example/"}, time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		after time.Duration // since the step before
		mine  bool
	}{
		{0, true}, {5 * time.Minute, false}, {2 * time.Minute, true}, {19 * time.Minute, false}, {2 * time.Minute, true}, {59 * time.Minute, false}, {2 * time.Minute, true},
		{365 * 24 * time.Hour, true}, {-365 * 24 * time.Hour, true}, {30 * time.Minute, false},
	} {
		now = now.Add(step.after)
		mine, err := r.claim(t.Context(), "attempt x", now)
		if err != nil || mine != step.mine {
			t.Errorf("%v after the step before: %v, %v", step.after, mine, err)
		}
	}
}
