package catalog

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"
)

// Tombstone takes down the entries that it covers, whether they are published before or after it.
type Tombstone struct {
	Host string `json:"host"`
	// Edition, if set, limits it to the host's entries in this edition.
	Edition string `json:"edition,omitempty"`
	// URLPrefix, if set, limits it to records with this prefix, in the form of weburl.Prefix. The
	// catalog knows no URLs: it still returns the entry, and the reader of the segment must leave
	// the records out. See Snapshot.Tombstones.
	URLPrefix string `json:"url_prefix,omitempty"`
	// Collection, if set, limits it to entries that were imported as this collection.
	Collection string `json:"collection,omitempty"`
	// Robot, if set, limits it to entries from this robot's batches that were published at Since or
	// later.
	Robot  string    `json:"robot,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at"` // set when recorded

	Act     Act   `json:"act,omitempty"`     // what was done; set when recorded
	Through int64 `json:"through,omitempty"` // of an erasure: the last sequence number that it covers
}

// Act is the kind of a row in the table of tombstones.
type Act string

const (
	TakeDown Act = ""      // took down, until a Lift
	Lift     Act = "lift"  // ended the take-downs that are the same by Tombstone.same
	Erase    Act = "erase" // recorded that taken-down entries are deleted; a Lift does not end it
)

// covers reports whether t hides the whole entry.
func (t Tombstone) covers(l SegmentEntry) bool {
	return t.Host == l.Host && t.URLPrefix == "" && (t.Edition == "" || t.Edition == l.Edition) && (t.Collection == "" || t.Collection == l.Collection) &&
		(t.Robot == "" || t.Robot == l.Robot && !l.Published.Before(t.Since)) &&
		(t.Act != Erase || l.Seq <= t.Through)
}

// same reports whether t and o name the same host, edition, URL prefix, collection, robot and
// Since.
func (t Tombstone) same(o Tombstone) bool {
	return t.Host == o.Host && t.Edition == o.Edition && t.URLPrefix == o.URLPrefix && t.Collection == o.Collection && t.Robot == o.Robot && t.Since.Equal(o.Since)
}

// Whole reports whether t covers all of the host.
func (t Tombstone) Whole() bool {
	return t.Edition == "" && t.URLPrefix == "" && t.Collection == "" && t.Robot == ""
}

// tombstones are the take-downs and erasures in force, by host key.
type tombstones map[string][]Tombstone

func (s tombstones) cover(l SegmentEntry) bool {
	return slices.ContainsFunc(s[l.SURT], func(t Tombstone) bool { return t.covers(l) })
}

// down reports whether the same take-down as t is in force; see Tombstone.same.
func (s tombstones) down(t Tombstone) bool {
	return slices.ContainsFunc(s[Key(t.Host)], func(o Tombstone) bool { return o.Act == TakeDown && o.same(t) })
}

// apply updates s by the table's next row.
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
// which they were recorded. If key is not empty, it walks only that host's tombstones.
func eachTombstone(ctx context.Context, runs []*run, key string) iter.Seq2[Tombstone, error] {
	with := slices.DeleteFunc(slices.Clone(runs), func(r *run) bool { return r.Tombstones == 0 })
	prefix := tableTombstone
	if key != "" {
		prefix += key + " "
	}
	return valuesOf[Tombstone](scan(ctx, with, prefix))
}

// anyDown reports whether a take-down of the host, or of a part of it, is in force. No entry of
// such a host expires, because a lift may change which entries are shown.
func (s tombstones) anyDown(key string) bool {
	return slices.ContainsFunc(s[key], func(t Tombstone) bool { return t.Act == TakeDown })
}

// Alteration says when a take-down or a lift changed a host's files.
type Alteration struct {
	Key string // of the host
	// As in the Tombstone.
	Edition, URLPrefix, Collection string
	// At is in whole seconds, because programs compare files' times in seconds. It is after the
	// take-down or lift, and after the alterations of earlier versions, so it may lie some seconds
	// in the future.
	At time.Time
}

// altered holds a version's alterations, all and by host key, in the order of their times.
type altered struct {
	all   []Alteration
	hosts map[string][]Alteration
}

// Alterations returns the alterations of the host with a key, or all if the key is empty, in the
// order of their times. They are as of now, not of the snapshot's version. Do not change them.
func Alterations(s *Snapshot, key string) []Alteration {
	a := s.catalog.current().altered
	if key == "" {
		return a.all
	}
	return a.hosts[key]
}

// Tick returns the modification time, in whole seconds, of files that were altered at at. It is
// later than at and than last, the modification time for the alteration before.
func Tick(at, last time.Time) time.Time {
	at, last = at.UTC().Truncate(time.Second), last.UTC().Truncate(time.Second)
	if at.Before(last) {
		at = last
	}
	return at.Add(time.Second)
}

// readTombstones reads a version's tombstones that are in force, and all its alterations.
func readTombstones(ctx context.Context, runs []*run) (tombstones, altered, error) {
	s, a := make(tombstones), altered{hosts: make(map[string][]Alteration)}
	for t, err := range eachTombstone(ctx, runs, "") {
		if err != nil {
			return nil, a, err
		}
		// A lift without a take-down is the end of an embargo. There may be one for each edition.
		if t.Act != Erase && (t.Act != Lift || t.Edition == "" || s.down(t)) {
			a.all = append(a.all, Alteration{Key(t.Host), t.Edition, t.URLPrefix, t.Collection, t.At})
		}
		s.apply(t)
	}
	slices.SortStableFunc(a.all, func(x, y Alteration) int { return cmp.Or(x.At.Compare(y.At), cmp.Compare(x.Key, y.Key)) })
	var at, given time.Time // of one version
	for i := range a.all {
		if x := &a.all[i]; x.At.Equal(at) {
			x.At = given
		} else {
			at, given = x.At, Tick(x.At, given)
			x.At = given
		}
	}
	for _, x := range a.all {
		a.hosts[x.Key] = append(a.hosts[x.Key], x)
	}
	return s, a, nil
}
