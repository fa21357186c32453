package levelling

// HoldPlanning keeps the leveller from reading the assignment after it has taken its token, like
// a process that stands still, until release is called.
func (l *Leveller) HoldPlanning() (release func()) {
	l.planning.Lock()
	return l.planning.Unlock
}
