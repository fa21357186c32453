package transfers

import (
	"net/netip"
	"sync"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/peer"
)

// Others is the Name of a download whose path the log does not keep, because unknown clients have
// caused too many rows.
const Others = "(others)"

const (
	// small is the size below which repeated downloads are summed up. The speed of the line bounds
	// the number of larger ones.
	small = 64 << 10 // bytes

	window = time.Minute // time for which repeated downloads are summed up

	// Rows an hour for unknown clients of one network and of all networks. Further downloads are
	// summed up without their paths, or without paths and network.
	rowsOfNetwork, rowsOfUnknown = 600, 6000

	mostRemembered = 1 << 16 // rows
)

// repeats remembers the rows of the last minutes, to which repeated downloads are added. So a
// client that requests single bytes a thousand times a second cannot fill the database. The zero
// value is ready to use.
type repeats struct {
	mu     sync.Mutex       // guards the following
	rows   map[repeat]int64 // IDs
	latest int64            // window of the last row
	until  time.Time        // when the counts begin anew, by the monotonic clock
	by     map[netip.Prefix]int
	all    int
}

// repeat is the key of a row: downloads with the same key share one row.
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

// sums reports whether a transfer shares a row with other transfers like it.
func (t *Transfer) sums() bool {
	return t.Direction == Download && (t.Unknown || t.Bytes < small || t.Protocol == Redirect)
}

// split divides new transfers. rows are the rows to insert. places maps a key to the index of its
// row in rows, if later downloads may be added to that row. more has the amounts to add to existing
// rows, by their IDs.
func (r *repeats) split(list []Transfer) (rows []Transfer, places map[repeat]int, more map[int64]*Transfer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	places, more = make(map[repeat]int), make(map[int64]*Transfer)
	for _, t := range list {
		t.Count = max(t.Count, 1)
		t.At = db.Time(db.Millis(t.At)) // to milliseconds, as stored
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

// add adds the counts of a download with the same key.
func (t *Transfer) add(o *Transfer) {
	t.Count, t.Bytes, t.Took = t.Count+o.Count, t.Bytes+o.Bytes, t.Took+o.Took
}

// bound counts one more row of an unknown client. If there are too many rows, it removes the path,
// or the path and the address, from t.
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

// remember records the IDs of the inserted rows to which later downloads may be added.
func (r *repeats) remember(added, rows []Transfer, places map[repeat]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range added {
		k := repeatOf(&t)
		n, ok := places[k]
		if !ok || rows[n].Bytes != t.Bytes || rows[n].Count != t.Count {
			continue // has a row of its own
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
