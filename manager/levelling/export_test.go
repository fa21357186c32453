package levelling

import "testing"

// HoldPlanning keeps the leveller from reading the assignment after it has taken its token, like
// a process that stands still, until release is called.
func (l *Leveller) HoldPlanning() (release func()) {
	l.planning.Lock()
	return l.planning.Unlock
}

// MoveAtOnce sets how many items one transaction moves, until the test ends.
func MoveAtOnce(t testing.TB, items int) {
	before := movesAtOnce
	movesAtOnce = items
	t.Cleanup(func() { movesAtOnce = before })
}
