package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sheaf/archive/store"
)

// References are rows "<object> <text>" with one of these texts; after refDown comes the entry as
// JSON.
const (
	refNeeded  = "n" // an entry needs the object
	refDown    = "t" // an entry in the object is taken down
	refExpired = "x" // an entry in the object has expired
)

// readEntries adds a reference for each entry of the head.
func (g *collector) readEntries(ctx context.Context) error {
	var row []byte
	last := "" // the object of the row before, if that row says that it is needed
	expired := openExpiries(g.head.runs)
	for at, err := range scan(ctx, passing(g.head.runs...), tableHost) {
		if err != nil {
			return err
		}
		e, err := entryOfRow(at)
		if err != nil {
			return err
		}
		gone, err := expired.hold(ctx, at)
		switch {
		case err != nil:
			return err
		case gone:
			row, last = fmt.Appendf(row[:0], "%s %s\n", e.Object, refExpired), ""
		case g.head.tombstones.cover(e):
			row, last = fmt.Appendf(row[:0], "%s %s %s\n", e.Object, refDown, bytes.TrimSpace(at[len(rowKey(at)):])), ""
		case e.Object == last:
			continue
		default:
			row, last = fmt.Appendf(row[:0], "%s %s\n", e.Object, refNeeded), e.Object
		}
		if err := g.sorter.Add(row); err != nil {
			return err
		}
	}
	return nil
}

// judge returns the reason why nothing needs an object, or an empty reason if something needs it or
// may need it. For ReasonTakenDown it also returns the taken-down entries in the object.
func (g *collector) judge(ctx context.Context, info store.Info, refs []string) (Reason, []SegmentEntry, error) {
	young := info.Modified.After(g.old)
	if g.opt.Index != nil && strings.HasPrefix(info.Key, g.opt.Index.Prefix()) {
		if g.needs(info.Key) {
			return "", nil, nil
		}
		return g.unlessYoung(ReasonUnused, young), nil, nil
	}
	if strings.HasPrefix(info.Key, runPrefix) {
		reason, err := g.judgeRun(ctx, info.Key)
		if reason == ReasonUnpublished {
			reason = g.unlessYoung(reason, young)
		}
		return reason, nil, err
	}
	switch {
	case slices.Contains(refs, refNeeded):
		if len(refs) > 1 {
			g.report.Shared++
		}
		return "", nil, nil
	case len(refs) > 0 && refs[0] == refExpired: // it sorts last, so all rows are of this kind
		return ReasonExpired, nil, nil
	case len(refs) > 0:
		entries, err := entriesDown(refs)
		return ReasonTakenDown, entries, err
	case !young && g.claimed(info.Key):
		g.report.Claimed++
		return "", nil, nil
	}
	return g.unlessYoung(ReasonUnpublished, young), nil, nil
}

// unlessYoung returns the reason for an old object. It counts a young object, and returns an empty
// reason.
func (g *collector) unlessYoung(reason Reason, young bool) Reason {
	if !young {
		return reason
	}
	g.report.Young++
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

// judgeRun is judge for a run of the catalog. It looks the run up in its version.
func (g *collector) judgeRun(ctx context.Context, key string) (Reason, error) {
	if g.pinned[key] {
		return "", nil
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(key, runPrefix), "-")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 || seqKey(n) != number {
		return "", nil // not a run of the catalog
	}
	if n > g.head.N {
		return ReasonUnpublished, nil
	}
	e, err := g.catalog.log.read(ctx, n)
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
