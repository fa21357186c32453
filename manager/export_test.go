package manager

// HoldPlanning keeps the manager from going on between taking its token and looking at the
// assignment, as a process that stands still does, until it is called.
func (m *Manager) HoldPlanning() (release func()) {
	m.planning.Lock()
	return m.planning.Unlock
}
