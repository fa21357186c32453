package catalog

import (
	"context"
	"iter"
	"slices"
	"time"
)

// Tombstone takes down what it covers, whether that was published before or will be.
type Tombstone struct {
	Host string `json:"host"`
	// Edition, if set, limits it to what this edition brought of the host.
	Edition string `json:"edition,omitempty"`
	// URLPrefix, if set, limits it to records that this prefix names: see weburl.Prefix, whose form
	// it has. The catalog knows no URLs: it still returns the entry, and the reader of the segment
	// must leave the records out. See Snapshot.Tombstones.
	URLPrefix string `json:"url_prefix,omitempty"`
	// Collection, if set, limits it to what was imported as this collection.
	Collection string `json:"collection,omitempty"`
	// Robot, if set, limits it to what this robot's batches brought, published at Since or later.
	Robot  string    `json:"robot,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at"` // set when recorded

	Act     Act   `json:"act,omitempty"`     // what was done; set when recorded
	Through int64 `json:"through,omitempty"` // of an erasure: the last sequence number that it covers
}

// Act is what a row of the table of tombstones did.
type Act string

const (
	TakeDown Act = ""      // took down, until a Lift
	Lift     Act = "lift"  // ended the take-downs of the same host, edition, URL prefix and collection
	Erase    Act = "erase" // recorded that what was taken down is deleted; a Lift does not end it
)

// covers reports whether nothing of the entry may be shown.
func (t Tombstone) covers(l SegmentEntry) bool {
	return t.Host == l.Host && t.URLPrefix == "" && (t.Edition == "" || t.Edition == l.Edition) && (t.Collection == "" || t.Collection == l.Collection) &&
		(t.Robot == "" || t.Robot == l.Robot && !l.Published.Before(t.Since)) &&
		(t.Act != Erase || l.Seq <= t.Through)
}

// same reports whether both name the same host, edition, URL prefix, collection, robot and time.
func (t Tombstone) same(o Tombstone) bool {
	return t.Host == o.Host && t.Edition == o.Edition && t.URLPrefix == o.URLPrefix && t.Collection == o.Collection && t.Robot == o.Robot && t.Since.Equal(o.Since)
}

// Whole reports whether it covers all of the host.
func (t Tombstone) Whole() bool {
	return t.Edition == "" && t.URLPrefix == "" && t.Collection == "" && t.Robot == ""
}

// tombstones are those in force, by host key.
type tombstones map[string][]Tombstone

func (s tombstones) cover(l SegmentEntry) bool {
	return slices.ContainsFunc(s[l.SURT], func(t Tombstone) bool { return t.covers(l) })
}

// down reports whether a take-down of the same host, edition, URL prefix and collection is in
// force.
func (s tombstones) down(t Tombstone) bool {
	return slices.ContainsFunc(s[Key(t.Host)], func(o Tombstone) bool { return o.Act == TakeDown && o.same(t) })
}

// apply applies the next row of the table.
func (s tombstones) apply(t Tombstone) {
	key := Key(t.Host)
	switch t.Act {
	case Lift:
		s[key] = slices.DeleteFunc(s[key], func(o Tombstone) bool { return o.Act == TakeDown && o.same(t) })
	case Erase:
		s[key] = slices.DeleteFunc(s[key], func(o Tombstone) bool { return o.Act == Erase && o.same(t) && o.Through <= t.Through })
		s[key] = append(s[key], t)
	default:
		s[key] = append(s[key], t)
	}
	if len(s[key]) == 0 {
		delete(s, key)
	}
}

// erased reports whether all the entries are recorded as deleted.
func (s tombstones) erased(entries []SegmentEntry) bool {
	return !slices.ContainsFunc(entries, func(l SegmentEntry) bool {
		return !slices.ContainsFunc(s[l.SURT], func(t Tombstone) bool { return t.Act == Erase && t.covers(l) })
	})
}

// eachTombstone walks the table of tombstones, host by host, and for each host in the order in
// which they were recorded. If key is not empty, it walks only that host's.
func eachTombstone(ctx context.Context, runs []*run, key string) iter.Seq2[Tombstone, error] {
	with := slices.DeleteFunc(slices.Clone(runs), func(r *run) bool { return r.Tombstones == 0 })
	prefix := tableTombstone
	if key != "" {
		prefix += key + " "
	}
	return func(yield func(Tombstone, error) bool) {
		for row, err := range scan(ctx, with, prefix) {
			var t Tombstone
			if err == nil {
				err = rowValue(row, &t)
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// anyDown reports whether a take-down of anything of the host is in force. Nothing of such a host
// expires, because a lift may change what is shown of it.
func (s tombstones) anyDown(key string) bool {
	return slices.ContainsFunc(s[key], func(t Tombstone) bool { return t.Act == TakeDown })
}
