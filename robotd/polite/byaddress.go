package polite

import (
	"iter"
	"net/netip"
	"sync"
)

// byAddress has what is known of hosts at the addresses that they share. Its methods may be called
// concurrently.
type byAddress[T any] struct {
	mu    sync.Mutex // guards all below
	hosts map[string]*atAddress[T]
	first map[netip.Addr]*atAddress[T]
}

// atAddress is a host in the list of those at its address. Most addresses have one host, for which
// a list takes a fifth of the memory of a map.
type atAddress[T any] struct {
	addr       netip.Addr
	prev, next *atAddress[T]
	known      T
}

// Remove forgets a host.
func (b *byAddress[T]) Remove(host string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(host)
}

func (b *byAddress[T]) remove(host string) {
	h := b.hosts[host]
	if h == nil {
		return
	}
	delete(b.hosts, host)
	if h.next != nil {
		h.next.prev = h.prev
	}
	switch {
	case h.prev != nil:
		h.prev.next = h.next
	case h.next != nil:
		b.first[h.addr] = h.next
	default:
		delete(b.first, h.addr)
	}
}

// set replaces what is known of a host. The caller holds mu.
func (b *byAddress[T]) set(addr netip.Addr, host string, v T) {
	b.remove(host)
	if b.hosts == nil {
		b.hosts, b.first = make(map[string]*atAddress[T]), make(map[netip.Addr]*atAddress[T])
	}
	h := &atAddress[T]{addr: addr, next: b.first[addr], known: v}
	if h.next != nil {
		h.next.prev = h
	}
	b.hosts[host], b.first[addr] = h, h
}

// at yields what is known of each host at an address. The caller holds mu.
func (b *byAddress[T]) at(addr netip.Addr) iter.Seq[T] {
	return func(yield func(T) bool) {
		for h := b.first[addr]; h != nil && yield(h.known); h = h.next {
		}
	}
}
