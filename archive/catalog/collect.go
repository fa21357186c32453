package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sheaf/archive/sortedrun"
	"slices"
	"time"
)

// MinDelay is the least CollectOptions.Delay where PinLife is as it is by default.
const MinDelay = 2 * pinLife

// CollectOptions are settings of one collection.
type CollectOptions struct {
	// Delay is how long an object is condemned before it is deleted, and how old
	// one must be to be condemned; 24 h if zero. It must be twice the PinLife or
	// more, of this and every other process that reads the store: what nothing
	// refers to now may still be read by those who pinned before.
	Delay time.Duration
	// Claims, where set, gives a function that tells whether an object belongs to
	// a batch that may still be published. It is asked before the catalog is
	// read, so that a batch published meanwhile is seen by one or the other.
	// Without it objects of unpublished batches are left alone.
	Claims func(context.Context) (func(key string) bool, error)
	// Retention lets old editions expire; the zero value keeps all for ever.
	Retention Retention
	// Indexes are collected too: what they do not need any more.
	Indexes []DerivedIndex
	// DryRun says what would be condemned and deleted, and writes nothing.
	DryRun bool
}

// Why an object is collected.
type Reason string

const (
	ReasonMerged      Reason = "merged"      // a run of which another holds the rows
	ReasonUnpublished Reason = "unpublished" // of an attempt that failed, or of a batch that will not be published
	ReasonTakenDown   Reason = "taken-down"  // all that it holds is taken down
	ReasonUnused      Reason = "unused"      // of a derived index that does not need it any more
	ReasonExpired     Reason = "expired"     // all that it holds is older than what is kept, and needed no more
)

// Candidate is one object that is condemned or deleted.
type Candidate struct {
	Key    string `json:"key"`
	Size   int64  `json:"size"` // bytes
	Reason Reason `json:"why"`
}

// Tally sums up objects; it names the first thousand.
type Tally struct {
	Objects int64       `json:"objects"`
	Bytes   int64       `json:"bytes"`
	Some    []Candidate `json:"some,omitempty"`
}

func (p *Tally) add(d Candidate) {
	p.Objects++
	p.Bytes += d.Size
	if len(p.Some) < maxListed {
		p.Some = append(p.Some, d)
	}
}

// Collection is what one collection did, or would do.
type Collection struct {
	DryRun    bool  `json:"dry_run,omitempty"`
	Version   int64 `json:"version"`   // of the catalog that was looked at
	Objects   int64 `json:"objects"`   // looked at
	Condemned Tally `json:"condemned"` // now, to be deleted after the delay
	Waiting   Tally `json:"waiting"`   // condemned before, for less than the delay
	Deleted   Tally `json:"deleted"`
	// Claimed and Young are not referred to and are left: their batches may be published.
	Claimed int64 `json:"claimed"`
	Young   int64 `json:"young"`
	// Shared are packs that hold taken-down segments beside others: they stay.
	Shared int64 `json:"shared"`
	// URLs is how many take-downs cover single URLs: their records are left out
	// of all that is read, and stay in their segments.
	URLs int64 `json:"urls"`
	// Retained is nil where all is kept for ever.
	Retained *Retained `json:"retained,omitempty"`
}

// Collect deletes what nothing needs any more, in two passes that each
// collection does at once: what is found to be without need is condemned, by a
// list in the store; what an older list condemned, and is still without need, is
// deleted. Needed is what the newest version refers to and is not taken down nor expired,
// every run by which an edition was published, and what a snapshot of this
// process reads. Before an object of a taken-down host is deleted the catalog is
// told, so that lifting the take-down does not promise what is gone.
//
// It may be repeated, cut off at any point, and run in several processes at
// once: nothing that was without need can come to be needed, because object
// names are used once. The error leaves what was condemned condemned.
func (c *Catalog) Collect(ctx context.Context, opt CollectOptions) (_ *Collection, err error) {
	if opt.Delay == 0 {
		opt.Delay = MinDelay
	}
	if opt.Delay < 2*c.opt.PinLife && !opt.DryRun {
		return nil, fmt.Errorf("collect: delay %v is less than twice the %v that a snapshot may be read", opt.Delay, c.opt.PinLife)
	}
	k := &collector{
		Catalog: c, opt: opt, now: c.opt.Now().UTC().Truncate(time.Millisecond), claimed: func(string) bool { return true },
		needed: sortedrun.NewSorter(c.opt.TempDir, c.opt.SortMemory, bytes.Compare),
		marks:  sortedrun.NewSorter(c.opt.TempDir, c.opt.SortMemory, bytes.Compare),
		report: &Collection{DryRun: opt.DryRun},
	}
	defer func() { err = errors.Join(err, k.needed.Close(), k.marks.Close()) }()
	if err := k.collect(ctx); err != nil {
		return nil, fmt.Errorf("collect: %w", err)
	}
	return k.report, nil
}

// collector is one collection under way.
type collector struct {
	*Catalog
	opt     CollectOptions
	now     time.Time
	claimed func(key string) bool
	head    *state
	pinned  map[string]bool // names of runs
	indexes []indexNeeds
	report  *Collection

	needed *sortedrun.Sorter // rows of reference
	marks  *sortedrun.Sorter // rows of marks: what the lists in the store condemn
	due    []string          // lists that are old enough

	fresh []Candidate // to go into the next list
	down  []downed    // to be erased, then deleted
}

// downed is an object that is due, with the lines that make it up.
type downed struct {
	Candidate
	lines []SegmentEntry // host, key, edition and sequence number only
}

const (
	perList = 10_000 // objects that one list condemns
	perDown = 1000   // objects that are erased by one version, at most
)

func (k *collector) collect(ctx context.Context) (err error) {
	if k.opt.Claims != nil {
		if k.claimed, err = k.opt.Claims(ctx); err != nil {
			return fmt.Errorf("claims of batches: %w", err)
		}
	}
	s, err := k.Pin(ctx)
	if err != nil {
		return err
	}
	defer func() { s.Release() }()
	k.head = s.state
	if k.opt.Retention.Keep > 0 {
		if err := k.retain(ctx); err != nil {
			return fmt.Errorf("retention: %w", err)
		}
		s.Release()
		if s, err = k.Pin(ctx); err != nil { // without what has expired
			return err
		}
	}
	k.head, k.pinned = s.state, k.pinnedRuns()
	k.report.Version = s.state.N
	if err := k.readLists(ctx); err != nil {
		return err
	}
	if err := k.readLines(ctx); err != nil {
		return err
	}
	if err := k.askIndexes(ctx); err != nil {
		return err
	}
	if err := k.walk(ctx); err != nil {
		return err
	}
	if err := errors.Join(k.deleteDown(ctx), k.condemn(ctx)); err != nil {
		return err
	}
	return k.dropLists(ctx)
}

// readLines notes what every line of the head refers to.
func (k *collector) readLines(ctx context.Context) error {
	for _, stones := range k.head.tombstones {
		for _, t := range stones {
			if t.URLPrefix != "" {
				k.report.URLs++
			}
		}
	}
	var row []byte
	last := ""
	expired := openExpiries(k.head.runs)
	for at, err := range pass(ctx, k.head.runs, tableHost) {
		if err != nil {
			return err
		}
		var line SegmentEntry
		if len(k.head.tombstones[hostOfRow(at)]) == 0 {
			if line.Object, err = objectOfRow(at); err != nil {
				return err
			}
		} else if line, err = entryOfRow(at); err != nil {
			return err
		}
		gone, err := expired.hold(ctx, at)
		if err != nil {
			return err
		}
		if gone {
			row, last = fmt.Appendf(row[:0], "%s %s\n", line.Object, refExpired), ""
		} else if k.head.tombstones.cover(line) {
			row, last = appendReference(row[:0], line), ""
		} else if line.Object == last {
			continue
		} else {
			row, last = fmt.Appendf(row[:0], "%s %s\n", line.Object, refNeeded), line.Object
		}
		if err := k.needed.Add(row); err != nil {
			return err
		}
	}
	return nil
}

// walk goes through all objects that may be collected, in the order of their keys.
func (k *collector) walk(ctx context.Context) error {
	needed, err := k.needed.Rows(ctx)
	if err != nil {
		return err
	}
	marks, err := k.marks.Rows(ctx)
	if err != nil {
		return err
	}
	prefixes := []string{"packs/", runPrefix, "segments/"} // in the order of keys
	for _, a := range k.indexes {
		prefixes = append(prefixes, a.prefix)
	}
	slices.Sort(prefixes)
	for _, prefix := range prefixes {
		for info, err := range k.lib.store.List(ctx, prefix, "") {
			if err != nil {
				return err
			}
			k.report.Objects++
			refs, err := takeKey(ctx, needed, info.Key)
			if err != nil {
				return err
			}
			condemned, err := takeKey(ctx, marks, info.Key)
			if err != nil {
				return err
			}
			d := downed{Candidate: Candidate{Key: info.Key, Size: info.Size}}
			if d.Reason, d.lines, err = k.judge(ctx, info, refs); err != nil {
				return err
			}
			if d.Reason == "" {
				continue
			}
			if err := k.execute(ctx, d, condemned); err != nil {
				return err
			}
		}
	}
	return nil
}

// execute does what is due with an object that nothing needs.
func (k *collector) execute(ctx context.Context, d downed, condemned []string) error {
	switch {
	case len(condemned) == 0:
		k.report.Condemned.add(d.Candidate)
		if k.fresh = append(k.fresh, d.Candidate); len(k.fresh) == perList {
			return k.condemn(ctx)
		}
	case condemned[0] != markDue:
		k.report.Waiting.add(d.Candidate)
	case d.Reason == ReasonTakenDown:
		if k.down = append(k.down, d); len(k.down) == perDown {
			return k.deleteDown(ctx)
		}
	default:
		return k.delete(ctx, d.Candidate)
	}
	return nil
}

// delete removes one object.
func (k *collector) delete(ctx context.Context, d Candidate) error {
	if !k.opt.DryRun {
		err := k.Catalog.opt.Boundary.Write(writeCollect, func() error { return k.lib.store.Delete(ctx, d.Key) })
		if err != nil {
			return err
		}
	}
	k.report.Deleted.add(d)
	return nil
}

// deleteDown removes objects whose lines are all taken down, once the catalog says so.
func (k *collector) deleteDown(ctx context.Context) error {
	down := k.down
	k.down = nil
	var stones []Tombstone
	seen := make(map[Tombstone]bool)
	for _, d := range down {
		for _, l := range d.lines {
			for _, t := range k.head.tombstones[l.SURT] {
				erase := Tombstone{Host: t.Host, Edition: t.Edition, Reason: t.Reason, By: "collection", Through: k.head.NextSeq - 1}
				if t.Act == TakeDown && t.covers(l) && !seen[erase] {
					seen[erase] = true
					stones = append(stones, erase)
				}
			}
		}
	}
	if !k.opt.DryRun && len(stones) > 0 {
		if err := k.erase(ctx, stones); err != nil {
			return err
		}
	}
	erased := k.current().tombstones
	for _, d := range down {
		if !k.opt.DryRun && !erased.erased(d.lines) {
			continue // lifted meanwhile
		}
		if err := k.delete(ctx, d.Candidate); err != nil {
			return err
		}
	}
	return nil
}
