package polite

import (
	"net/netip"
	"sync"
)

// Moves are hosts that the robot has found at another address than before. Other robots may be
// visiting that address, so the robot goes there only when the manager knows, and has not given the
// host to another robot or told this one to wait. Its methods may be called concurrently.
type Moves struct {
	mu    sync.Mutex // guards what follows
	found map[string]netip.Addr
	told  map[string]netip.Addr
}

// NewMoves returns Moves that know no host.
func NewMoves() *Moves {
	return &Moves{found: map[string]netip.Addr{}, told: map[string]netip.Addr{}}
}

// May reports whether a host that has moved may be visited at its new address. If not, the manager
// is to be told of it.
func (m *Moves) May(host string, to netip.Addr) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.told[host] == to {
		delete(m.told, host)
		return true
	}
	m.found[host] = to
	return false
}

// Found returns the addresses that the manager is to be told of, by host.
func (m *Moves) Found() map[string][]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string][]string, len(m.found))
	for host, to := range m.found {
		all[host] = []string{to.String()}
	}
	return all
}

// Told takes addresses that Found has returned. Call it when the manager knows them and the robot
// has the list of hosts that the manager then sent: May allows these moves from then on.
func (m *Moves) Told(addresses map[string][]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for host, list := range addresses {
		if to := m.found[host]; to.String() == list[0] {
			delete(m.found, host)
			m.told[host] = to
		}
	}
}
