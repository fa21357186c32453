package transfers

import (
	"net/netip"
	"sync"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/peer"
)

// Others is the name of what was downloaded where the log keeps no paths, because a client that is
// not known caused too many rows.
const Others = "(others)"

const (
	// small is the size below which downloads that repeat are summed up. Larger ones are bounded by
	// what the line brings.
	small = 64 << 10 // bytes

	window = time.Minute // for which they are summed up

	// Rows an hour of clients that are not known, from one network and from all. What comes beyond
	// that is summed up without its path, or without path and network.
	rowsOfNetwork, rowsOfUnknown = 600, 6000

	mostRemembered = 1 << 16 // rows
)

// repeats knows the rows of the last minutes, so that downloads which repeat are added to them: a
// client that asks for single bytes, a thousand times a second, shall not fill the database. The
// zero value is ready to use.
type repeats struct {
	mu     sync.Mutex       // guards the following
	rows   map[repeat]int64 // IDs
	latest int64            // window of the last row
	until  time.Time        // when rows are counted anew, by the monotonic clock
	by     map[netip.Prefix]int
	all    int
}

// repeat is what downloads have in common that are one row.
type repeat struct {
	window                                  int64
	direction, protocol, who, name, outcome string
	network                                 netip.Prefix
	acknowledged                            bool
}

func repeatOf(t *Transfer) repeat {
	return repeat{
		t.At.UnixMilli() / window.Milliseconds(), t.Direction, t.Protocol, t.Who, t.Name, t.Outcome, peer.Network(peer.Addr(t.Remote)), t.Acknowledged,
	}
}

// sums reports whether a transfer is added to others like it.
func (t *Transfer) sums() bool {
	return t.Direction == Download && (t.Unknown || t.Bytes < small || t.Protocol == Redirect)
}

// split returns the rows to add, the places of those among them to which others may be added later,
// and what to add to rows that there are, which have IDs.
func (r *repeats) split(list []Transfer) (rows []Transfer, places map[repeat]int, more map[int64]*Transfer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	places, more = make(map[repeat]int), make(map[int64]*Transfer)
	for _, t := range list {
		t.Count = max(t.Count, 1)
		t.At = db.Time(db.Millis(t.At)) // as it is stored
		if !t.sums() {
			rows = append(rows, t)
			continue
		}
		known := func(k repeat) bool {
			_, placed := places[k]
			_, stored := r.rows[k]
			return placed || stored
		}
		if t.Unknown && !known(repeatOf(&t)) {
			r.bound(&t, known)
		}
		k := repeatOf(&t)
		if id, ok := r.rows[k]; ok {
			if more[id] == nil {
				more[id] = &Transfer{ID: id}
			}
			more[id].add(&t)
		} else if n, ok := places[k]; ok {
			rows[n].add(&t)
		} else {
			places[k] = len(rows)
			rows = append(rows, t)
		}
	}
	return rows, places, more
}

// add adds a download that is like t.
func (t *Transfer) add(o *Transfer) {
	t.Count, t.Bytes, t.Took = t.Count+o.Count, t.Bytes+o.Bytes, t.Took+o.Took
}

// bound counts one more row of a client that is not known, and leaves the path or the network out
// if there are too many.
func (r *repeats) bound(t *Transfer, known func(repeat) bool) {
	if now := time.Now(); !now.Before(r.until) {
		r.until, r.by, r.all = now.Add(time.Hour), make(map[netip.Prefix]int), 0
	}
	network := peer.Network(peer.Addr(t.Remote))
	if r.by[network] >= rowsOfNetwork {
		t.Name = Others
	}
	if r.all >= rowsOfUnknown {
		t.Name, t.Remote = Others, ""
	}
	if !known(repeatOf(t)) {
		r.by[network]++
		r.all++
	}
}

// remember notes the rows that were added, with their IDs, and that split has placed.
func (r *repeats) remember(added, rows []Transfer, places map[repeat]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range added {
		k := repeatOf(&t)
		n, ok := places[k]
		if !ok || rows[n].Bytes != t.Bytes || rows[n].Count != t.Count {
			continue // of its own
		}
		if k.window > r.latest {
			r.latest = k.window
			for old := range r.rows {
				if old.window < k.window-1 {
					delete(r.rows, old)
				}
			}
		}
		if r.rows == nil || len(r.rows) >= mostRemembered {
			r.rows = make(map[repeat]int64)
		}
		r.rows[k] = t.ID
	}
}
