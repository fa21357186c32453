package catalog

import (
	"cmp"
	"context"
	"slices"
	"time"
)

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
