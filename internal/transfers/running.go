package transfers

import (
	"slices"
	"sync"
	"time"
)

// Running has the transfers that are under way in this process. The zero value is ready to use; a
// nil Running ignores all transfers. Its methods may be called from many goroutines at once.
type Running struct {
	mu  sync.Mutex // guards all
	all map[*running]struct{}
}

type running struct {
	Transfer
	moved func() int64
}

// Begin adds a transfer until ended is called. List calls moved to get the number of bytes so far.
func (r *Running) Begin(t Transfer, moved func() int64) (ended func()) {
	if r == nil {
		return func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = make(map[*running]struct{})
	}
	one := &running{t, moved}
	r.all[one] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.all, one)
	}
}

// List returns the transfers with f's name and direction, longest first, with their bytes and time
// so far. They have no ID and no outcome yet. It ignores f's other fields.
func (r *Running) List(f Filter) []Transfer {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	picked := make([]*running, 0, len(r.all))
	for one := range r.all {
		if (f.Who == "" || one.Who == f.Who) && (f.Direction == "" || one.Direction == f.Direction) {
			picked = append(picked, one)
		}
	}
	r.mu.Unlock()
	list := make([]Transfer, 0, len(picked))
	for _, one := range picked {
		t := one.Transfer
		t.Bytes, t.Took = one.moved(), time.Since(t.At)
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b Transfer) int { return a.At.Compare(b.At) })
	return list
}
