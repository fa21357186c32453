package catalog

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
)

// Rows of reference are "<object> n" where an object is needed, and "<object> t
// <host key> <edition> <sequence number>" for a line in it that is taken down, and
// "<object> x" for one that has expired.
// Rows of marks are "<object> due" or "<object> wait".
const (
	refNeeded  = "n"
	refDown    = "t"
	refExpired = "x"
	markDue    = "due"
	markWait   = "wait"
)

func appendReference(dst []byte, l SegmentEntry) []byte {
	return fmt.Appendf(dst, "%s %s %s %s %d\n", l.Object, refDown, l.SURT, l.Edition, l.Seq)
}

// takeKey passes all rows up to the last one of a key, and gives what stands in
// those of the key itself, in order, each once.
func takeKey(ctx context.Context, r sortedrun.Rows, key string) (of []string, err error) {
	for r.Row() != nil {
		at, rest, _ := strings.Cut(string(r.Row()), " ")
		if at > key {
			break
		}
		if at == key && (len(of) == 0 || of[len(of)-1] != rest) {
			of = append(of, rest)
		}
		if err := r.Next(ctx); err != nil {
			return nil, err
		}
	}
	return of, nil
}

// judge tells why an object is without need; empty: it is needed, or may be. The
// lines are those of an object that is taken down.
func (k *collector) judge(ctx context.Context, info store.Info, refs []string) (Reason, []SegmentEntry, error) {
	young := info.Modified.After(k.now.Add(-k.opt.Delay))
	if a := k.indexOf(info.Key); a != nil {
		switch {
		case a.needs(info.Key):
			return "", nil, nil
		case young:
			k.report.Young++
			return "", nil, nil
		}
		return ReasonUnused, nil, nil
	}
	if strings.HasPrefix(info.Key, runPrefix) {
		why, err := k.judgeRun(ctx, info.Key)
		if why == ReasonUnpublished && young {
			k.report.Young++
			why = ""
		}
		return why, nil, err
	}
	needed := slices.Contains(refs, refNeeded)
	switch {
	case needed && len(refs) > 1:
		k.report.Shared++
		return "", nil, nil
	case needed:
		return "", nil, nil
	case len(refs) > 0 && refs[0] == refExpired:
		return ReasonExpired, nil, nil
	case len(refs) > 0:
		lines, err := k.downLines(slices.DeleteFunc(refs, func(ref string) bool { return ref == refExpired }))
		return ReasonTakenDown, lines, err
	case young:
		k.report.Young++
		return "", nil, nil
	case k.claimed(info.Key):
		k.report.Claimed++
		return "", nil, nil
	}
	return ReasonUnpublished, nil, nil
}

// downLines reads rows of reference back, as far as tombstones look at lines.
func (k *collector) downLines(refs []string) ([]SegmentEntry, error) {
	lines := make([]SegmentEntry, len(refs))
	for i, ref := range refs {
		f := strings.Fields(ref)
		seq, err := strconv.ParseInt(f[len(f)-1], 10, 64)
		if err != nil || len(f) != 4 {
			return nil, fmt.Errorf("row of reference %q", ref)
		}
		lines[i] = SegmentEntry{SURT: f[1], Edition: f[2], Seq: seq, Host: k.head.tombstones[f[1]][0].Host}
	}
	return lines, nil
}

// judgeRun looks for a run in the version that it was made for.
func (k *collector) judgeRun(ctx context.Context, key string) (Reason, error) {
	if k.pinned[key] {
		return "", nil
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(key, runPrefix), "-")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 || seqKey(n) != number {
		return "", nil // not one of ours
	}
	if n > k.head.N {
		return ReasonUnpublished, nil
	}
	e, err := k.log.read(ctx, n)
	switch {
	case err != nil:
		return "", err
	case e.Added.Name != key:
		return ReasonUnpublished, nil
	case e.Kind == kindMerge:
		return ReasonMerged, nil
	}
	return "", nil // an edition's own list
}

// erased reports whether all the lines are recorded as deleted.
func (s tombstones) erased(lines []SegmentEntry) bool {
	return !slices.ContainsFunc(lines, func(l SegmentEntry) bool {
		return !slices.ContainsFunc(s[l.SURT], func(t Tombstone) bool { return t.Act == Erase && t.covers(l) })
	})
}

// erase records that what the stones cover is deleted, as far as the take-downs
// are still in force and it is not recorded.
func (c *Catalog) erase(ctx context.Context, stones []Tombstone) error {
	_, err := c.record(ctx, kindErase, Erase, stones, func(head *state) ([]Tombstone, error) {
		return slices.DeleteFunc(slices.Clone(stones), func(t Tombstone) bool {
			recorded := slices.ContainsFunc(head.tombstones[Key(t.Host)], func(o Tombstone) bool {
				return o.Act == Erase && o.same(t) && o.Through >= t.Through
			})
			return recorded || !head.tombstones.down(t)
		}), nil
	})
	return err
}
