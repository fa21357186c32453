package polite

import (
	"net/netip"
	"sync"
)

// byAddress has what is known of hosts at the addresses that they share. Its methods may be called
// concurrently.
type byAddress[T any] struct {
	mu    sync.Mutex // guards all below
	homes map[string]netip.Addr
	hosts map[netip.Addr]map[string]T
}

// Remove forgets a host.
func (b *byAddress[T]) Remove(host string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(host)
}

func (b *byAddress[T]) remove(host string) {
	addr := b.homes[host]
	delete(b.homes, host)
	if delete(b.hosts[addr], host); len(b.hosts[addr]) == 0 {
		delete(b.hosts, addr)
	}
}

// set replaces what is known of a host. The caller holds mu.
func (b *byAddress[T]) set(addr netip.Addr, host string, v T) {
	b.remove(host)
	if b.homes == nil {
		b.homes, b.hosts = make(map[string]netip.Addr), make(map[netip.Addr]map[string]T)
	}
	if b.hosts[addr] == nil {
		b.hosts[addr] = make(map[string]T)
	}
	b.homes[host], b.hosts[addr][host] = addr, v
}
