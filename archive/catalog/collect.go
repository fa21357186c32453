package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
)

// MinDelay is the least CollectOptions.Delay if Options.PinLife is not set.
const MinDelay = 2 * pinLife

// CollectOptions are the settings of one collection.
type CollectOptions struct {
	// Delay is how long an object stays marked before it is deleted; 24 h if zero. Unpublished
	// objects, and an index's unused objects, must be that old before they are marked. It must be
	// at least twice the PinLife of every process that reads the store: an older snapshot may still
	// read an object to which nothing refers now.
	Delay time.Duration
	// Claims, if set, returns a function that reports whether an object belongs to a batch that may
	// still be published. It is called before the catalog is read. So a batch that is published
	// meanwhile is still claimed or already in the catalog. Without Claims, objects of unpublished
	// batches are kept.
	Claims func(context.Context) (func(key string) bool, error)
	// Retention lets old editions expire. The zero value keeps everything for ever.
	Retention Retention
	// Index, if set, is a derived index. Objects that it does not need any more are collected, too.
	Index DerivedIndex
	// DryRun makes Collect report which objects it would mark and delete, and write nothing.
	DryRun bool
}

// Collection reports what one collection did or, in a dry run, would do.
type Collection struct {
	DryRun    bool  `json:"dry_run,omitempty"`
	Version   int64 `json:"version"`   // of the catalog that was read
	Objects   int64 `json:"objects"`   // looked at
	Condemned Tally `json:"condemned"` // marked now, to be deleted after the delay
	Waiting   Tally `json:"waiting"`   // marked before, for less than the delay
	Deleted   Tally `json:"deleted"`
	// Claimed and Young count objects that nothing needs now and that were kept: Claimed, because
	// their batch may still be published; Young, because they are younger than the delay.
	Claimed int64 `json:"claimed"`
	Young   int64 `json:"young"`
	// Shared counts packs in which some segments are needed, and others are taken down or have
	// expired. The packs are kept.
	Shared int64 `json:"shared"`
	// URLs counts take-downs of single URLs. Their records stay in the segments, but readers leave
	// them out.
	URLs int64 `json:"urls"`
	// Retained is nil if everything is kept for ever.
	Retained *Retained `json:"retained,omitempty"`
}

// Reason is why an object is collected.
type Reason string

const (
	ReasonMerged      Reason = "merged"      // a run whose rows are in a merged run
	ReasonUnpublished Reason = "unpublished" // an object of an attempt that failed, or of a batch that will not be published
	ReasonTakenDown   Reason = "taken-down"  // all in it is taken down or expired, some taken down
	ReasonUnused      Reason = "unused"      // an object that its derived index does not need any more
	ReasonExpired     Reason = "expired"     // everything in it has expired
)

// Candidate is one object that is marked or deleted.
type Candidate struct {
	Key    string `json:"key"`
	Size   int64  `json:"size"` // bytes
	Reason Reason `json:"why"`
}

// Tally counts objects, and names the first thousand.
type Tally struct {
	Objects int64       `json:"objects"`
	Bytes   int64       `json:"bytes"`
	Some    []Candidate `json:"some,omitempty"`
}

func (t *Tally) add(c Candidate) {
	t.Objects++
	t.Bytes += c.Size
	if len(t.Some) < maxListed {
		t.Some = append(t.Some, c)
	}
}

// Collect deletes the objects that nothing needs any more. An object is deleted in two passes: one
// collection marks it in a list in the store, and a later collection deletes it, if still nothing
// needs it. Each collection does both, for different objects.
//
// Collect keeps the objects of the newest version's entries, except of entries that are taken down
// or have expired. It also keeps every run with which an edition was published, and the runs of the
// newest version and of this Catalog's snapshots. Before Collect deletes an object that is taken
// down, the catalog records the erasure, so that a lift of the take-down does not show deleted
// entries.
//
// Collect may be interrupted at any point, repeated, and run in several processes at once: keys are
// used once, so an object that nothing needs will never be needed. After an error, marks stay.
func (c *Catalog) Collect(ctx context.Context, opt CollectOptions) (report *Collection, err error) {
	defer wrap(&err, "collect")
	opt.Delay = cmp.Or(opt.Delay, MinDelay)
	if opt.Delay < 2*c.opt.PinLife && !opt.DryRun {
		return nil, fmt.Errorf("delay %v is less than twice the %v that a snapshot may be read", opt.Delay, c.opt.PinLife)
	}
	report = &Collection{DryRun: opt.DryRun}
	claimed := func(string) bool { return true }
	if opt.Claims != nil {
		if claimed, err = opt.Claims(ctx); err != nil {
			return nil, fmt.Errorf("claims of batches: %w", err)
		}
	}
	now := c.opt.Now().UTC().Truncate(time.Millisecond)
	if opt.Retention.Keep > 0 {
		if report.Retained, err = c.retain(ctx, opt.Retention, now, opt.DryRun); err != nil {
			return nil, fmt.Errorf("retention: %w", err)
		}
	}
	s, err := c.Pin(ctx) // shows no expired entries
	if err != nil {
		return nil, err
	}
	defer s.Release()
	head := s.state
	report.Version = head.N
	for _, stones := range head.tombstones {
		for _, t := range stones {
			if t.URLPrefix != "" {
				report.URLs++
			}
		}
	}
	g := &collector{
		catalog: c, opt: opt, report: report, head: head, now: now, old: now.Add(-opt.Delay),
		pinned: c.pinnedRuns(), claimed: claimed, sorter: c.newSorter(),
	}
	defer func() { err = errors.Join(err, g.sorter.Close()) }()
	if err := g.prepare(ctx); err != nil {
		return nil, err
	}
	for info, err := range c.collectable(ctx, opt.Index) {
		if err != nil {
			return nil, err
		}
		report.Objects++
		if err := g.look(ctx, info); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(g.deleteDown(ctx), g.putMarks(ctx)); err != nil {
		return nil, err
	}
	return report, g.dropLists(ctx)
}

// collector makes one collection. It goes through the objects in the order of their keys.
type collector struct {
	catalog *Catalog
	opt     CollectOptions
	report  *Collection
	head    *state
	now     time.Time
	old     time.Time // an object or a list that was changed later is young

	pinned  map[string]bool       // names of the runs that a snapshot reads
	claimed func(key string) bool // see CollectOptions.Claims
	needs   func(key string) bool // of the derived index

	sorter *sortedrun.Sorter // rows "<object> <text>": marks and references
	rows   *sortedrun.Merged // the rows of sorter that were not read yet

	due   []string    // keys of the lists that are old enough
	fresh []Candidate // to go into the next list
	down  []downed    // to be erased in the catalog, then deleted
}

// prepare reads which objects are marked and which objects the catalog's entries name, and asks the
// derived index what it needs.
func (g *collector) prepare(ctx context.Context) (err error) {
	if err := g.readLists(ctx); err != nil {
		return err
	}
	if err := g.readEntries(ctx); err != nil {
		return err
	}
	if g.rows, err = g.sorter.Rows(ctx); err == nil && g.opt.Index != nil {
		g.needs, err = g.opt.Index.Needs(ctx)
	}
	return err
}

// look marks an object that nothing needs, leaves it until its mark is old enough, or deletes it.
func (g *collector) look(ctx context.Context, info store.Info) error {
	marked, refs, err := g.take(ctx, info.Key)
	if err != nil {
		return err
	}
	d := downed{Candidate: Candidate{Key: info.Key, Size: info.Size}}
	if d.Reason, d.entries, err = g.judge(ctx, info, refs); err != nil {
		return err
	}
	switch {
	case d.Reason == "":
		return nil
	case marked == unmarked:
		g.report.Condemned.add(d.Candidate)
		return g.mark(ctx, d.Candidate)
	case marked == markWait:
		g.report.Waiting.add(d.Candidate)
		return nil
	case d.Reason == ReasonTakenDown:
		if g.down = append(g.down, d); len(g.down) < perErase {
			return nil
		}
		return g.deleteDown(ctx)
	}
	return g.delete(ctx, d.Candidate)
}

// take skips all rows up to an object's last row. It returns the object's mark, and the different
// texts of its references, in order.
func (g *collector) take(ctx context.Context, key string) (marked mark, refs []string, err error) {
	for g.rows.Row() != nil {
		at, text, _ := strings.Cut(string(g.rows.Row()), " ")
		if at > key {
			break
		}
		switch of := mark(text); {
		case at != key:
		case of == markDue || of == markWait:
			marked = cmp.Or(marked, of) // markDue comes first
		case len(refs) == 0 || refs[len(refs)-1] != text:
			refs = append(refs, text)
		}
		if err := g.rows.Next(ctx); err != nil {
			return "", nil, err
		}
	}
	return marked, refs, nil
}

// checkNotBehind returns an error if the newest version is lower than known, the version in a list
// of marked objects. Then versions are lost, and objects that they need seem unneeded.
func (g *collector) checkNotBehind(ctx context.Context, known int64) error {
	if known <= g.head.N {
		return nil
	}
	newest, err := g.catalog.refresh(ctx) // another process may have appended versions
	if err != nil || newest.N >= known {
		return err
	}
	return fmt.Errorf("knows version %d, but the catalog ends at %d: %w", known, newest.N, ErrCorrupt)
}

// DerivedIndex is an index that another package derives from the catalog and keeps in the catalog's
// store. The catalog knows only where the index is.
type DerivedIndex interface {
	// Prefix returns the prefix of all its objects' keys. The prefix ends with a slash.
	Prefix() string
	// Needs returns a function that reports whether the index needs an object. An object that the
	// index does not need must never be needed later, unless the object is younger than
	// CollectOptions.Delay.
	Needs(ctx context.Context) (func(key string) bool, error)
	// Check is for Fsck. It calls need for every object that the index needs, with the object's
	// size in bytes, and problem for everything that is wrong. It returns an error only if it could
	// not check.
	Check(ctx context.Context, deep bool, need func(key string, size int64) error, problem func(where, detail string)) error
}

// collectable lists all objects that may be collected, in the order of their keys.
func (c *Catalog) collectable(ctx context.Context, index DerivedIndex) iter.Seq2[store.Info, error] {
	prefixes := []string{"packs/", runPrefix, "segments/"}
	if index != nil {
		prefixes = append(prefixes, index.Prefix())
	}
	slices.Sort(prefixes)
	return func(yield func(store.Info, error) bool) {
		for _, prefix := range prefixes {
			for info, err := range c.lib.store.List(ctx, prefix, "") {
				if !yield(info, err) || err != nil {
					return
				}
			}
		}
	}
}

// downed is an object that nothing needs, with the taken-down entries in it.
type downed struct {
	Candidate
	entries []SegmentEntry
}

// perErase limits the objects that are erased by one version.
const perErase = 1000

// delete deletes one object, unless this is a dry run, and counts it.
func (g *collector) delete(ctx context.Context, c Candidate) error {
	if !g.opt.DryRun {
		err := g.catalog.opt.Boundary.Write(writeCollect, func() error { return g.catalog.lib.store.Delete(ctx, c.Key) })
		if err != nil {
			return err
		}
	}
	g.report.Deleted.add(c)
	return nil
}

// deleteDown records the erasure of the entries in g.down in the catalog, then deletes their
// objects. It leaves objects whose take-down was lifted meanwhile.
func (g *collector) deleteDown(ctx context.Context) error {
	down := g.down
	g.down = nil
	if stones := g.erasures(down); !g.opt.DryRun && len(stones) > 0 {
		if err := g.catalog.erase(ctx, stones); err != nil {
			return err
		}
	}
	now := g.catalog.current().tombstones
	for _, d := range down {
		if !g.opt.DryRun && !now.erased(d.entries) {
			continue
		}
		if err := g.delete(ctx, d.Candidate); err != nil {
			return err
		}
	}
	return nil
}

// erasures returns an erasure for each take-down that covers an entry in the objects.
func (g *collector) erasures(down []downed) (stones []Tombstone) {
	seen := make(map[Tombstone]bool)
	for _, d := range down {
		for _, e := range d.entries {
			for _, t := range g.head.tombstones[e.SURT] {
				erase := t
				erase.By, erase.Through = "collection", g.head.NextSeq-1
				if t.Act == TakeDown && t.covers(e) && !seen[erase] {
					seen[erase] = true
					stones = append(stones, erase)
				}
			}
		}
	}
	return stones
}
