package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
)

// judge decides which objects nothing needs.
type judge struct {
	head    *state
	log     logbook
	pinned  map[string]bool // names of the runs that a snapshot reads
	claimed func(key string) bool
	index   DerivedIndex          // nil: none
	needs   func(key string) bool // of index
	old     time.Time             // an object that was changed later is young
	report  *Collection           // counts objects that are kept although nothing refers to them

	sorter *sortedrun.Sorter // rows of reference
	rows   *sortedrun.Merged // the rows of sorter that were not read yet
}

// Rows of reference are "<object> <text>". The text is one of these; after refDown comes the entry
// as JSON.
const (
	refNeeded  = "n" // an entry needs the object
	refDown    = "t" // an entry in the object is taken down
	refExpired = "x" // an entry in the object has expired
)

// prepare reads which objects the catalog's entries name, and asks the derived index what it needs.
func (j *judge) prepare(ctx context.Context) (err error) {
	if err := j.readEntries(ctx); err != nil {
		return err
	}
	if j.rows, err = j.sorter.Rows(ctx); err == nil && j.index != nil {
		j.needs, err = j.index.Needs(ctx)
	}
	return err
}

// readEntries adds a row of reference for each entry of the head.
func (j *judge) readEntries(ctx context.Context) error {
	var row []byte
	last := "" // the object of the row before, if that row says that it is needed
	expired := openExpiries(j.head.runs)
	for at, err := range pass(ctx, j.head.runs, tableHost) {
		if err != nil {
			return err
		}
		var e SegmentEntry
		if len(j.head.tombstones[hostOfRow(at)]) == 0 {
			if e.Object, err = objectOfRow(at); err != nil {
				return err
			}
		} else if e, err = entryOfRow(at); err != nil {
			return err
		}
		gone, err := expired.hold(ctx, at)
		switch {
		case err != nil:
			return err
		case gone:
			row, last = fmt.Appendf(row[:0], "%s %s\n", e.Object, refExpired), ""
		case j.head.tombstones.cover(e):
			row, last = fmt.Appendf(row[:0], "%s %s %s\n", e.Object, refDown, bytes.TrimSpace(at[len(rowKey(at)):])), ""
		case e.Object == last:
			continue
		default:
			row, last = fmt.Appendf(row[:0], "%s %s\n", e.Object, refNeeded), e.Object
		}
		if err := j.sorter.Add(row); err != nil {
			return err
		}
	}
	return nil
}

// of returns the reason why nothing needs an object, or an empty reason if something needs it or
// may need it. For ReasonTakenDown it also returns the taken-down entries in the object. Call it
// for objects in the order of their keys.
func (j *judge) of(ctx context.Context, info store.Info) (Reason, []SegmentEntry, error) {
	refs, err := takeKey(ctx, j.rows, info.Key)
	if err != nil {
		return "", nil, err
	}
	young := info.Modified.After(j.old)
	if j.index != nil && strings.HasPrefix(info.Key, j.index.Prefix()) {
		if j.needs(info.Key) {
			return "", nil, nil
		}
		return j.unlessYoung(ReasonUnused, young), nil, nil
	}
	if strings.HasPrefix(info.Key, runPrefix) {
		reason, err := j.ofRun(ctx, info.Key)
		if reason == ReasonUnpublished {
			reason = j.unlessYoung(reason, young)
		}
		return reason, nil, err
	}
	switch {
	case slices.Contains(refs, refNeeded):
		if len(refs) > 1 {
			j.report.Shared++
		}
		return "", nil, nil
	case len(refs) > 0 && refs[0] == refExpired: // it sorts last, so all rows are of this kind
		return ReasonExpired, nil, nil
	case len(refs) > 0:
		entries, err := entriesDown(refs)
		return ReasonTakenDown, entries, err
	case !young && j.claimed(info.Key):
		j.report.Claimed++
		return "", nil, nil
	}
	return j.unlessYoung(ReasonUnpublished, young), nil, nil
}

// unlessYoung returns the reason for an old object. It counts a young object, and returns an empty
// reason.
func (j *judge) unlessYoung(reason Reason, young bool) Reason {
	if !young {
		return reason
	}
	j.report.Young++
	return ""
}

// entriesDown returns the taken-down entries of rows of reference.
func entriesDown(refs []string) (entries []SegmentEntry, err error) {
	for _, ref := range refs {
		if text, down := strings.CutPrefix(ref, refDown+" "); down {
			var e SegmentEntry
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				return nil, fmt.Errorf("row of reference %q: %w", ref, err)
			}
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// ofRun is like of, for a run of the catalog. It looks the run up in its version.
func (j *judge) ofRun(ctx context.Context, key string) (Reason, error) {
	if j.pinned[key] {
		return "", nil
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(key, runPrefix), "-")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 || seqKey(n) != number {
		return "", nil // not a run of the catalog
	}
	if n > j.head.N {
		return ReasonUnpublished, nil
	}
	e, err := j.log.read(ctx, n)
	switch {
	case err != nil:
		return "", err
	case e.Added.Name != key:
		return ReasonUnpublished, nil
	case e.Kind == kindMerge:
		return ReasonMerged, nil
	}
	return "", nil // the list of an edition
}
