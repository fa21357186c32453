package frontier

// Begun reports whether a page of the host was finished or postponed in this cycle.
func (h *Host) Begun() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last.consumed > 0
}
