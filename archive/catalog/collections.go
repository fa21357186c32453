package catalog

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"sheaf/internal/wire"
)

// CollectionList answers GET /v1/collections, sorted by name.
type CollectionList struct {
	Collections []ImportedCollection `json:"collections"`
}

// ImportedCollection is all that was published of one collection. Its sums are zero until Sum is
// called.
type ImportedCollection struct {
	wire.Collection          // the newest statement of its source and licence
	Editions        []string `json:"editions"`             // the editions that brought some of it, in the order of publication
	TakenDown       bool     `json:"taken_down,omitempty"` // by RemoveWhole
	Hosts           int64    `json:"hosts"`
	Segments        int64    `json:"segments"`
	Records         int64    `json:"records"`
	Bytes           int64    `json:"bytes"` // of segments

	First time.Time `json:"first,omitzero"` // span of the crawl
	Last  time.Time `json:"last,omitzero"`
}

// Sum adds the entries to c's counts and span. Call it once.
func (c *ImportedCollection) Sum(entries iter.Seq2[SegmentEntry, error]) error {
	hosts := make(map[string]bool)
	for l, err := range entries {
		if err != nil {
			return fmt.Errorf("collection %s: %w", c.Name, err)
		}
		hosts[l.Host] = true
		c.Segments, c.Records, c.Bytes = c.Segments+1, c.Records+l.Records, c.Bytes+l.Length
		if c.First.IsZero() || l.First.Before(c.First) {
			c.First = l.First.UTC()
		}
		if l.Last.After(c.Last) {
			c.Last = l.Last.UTC()
		}
	}
	c.Hosts = int64(len(hosts))
	return nil
}

// Collections returns all collections, sorted by name. Collections that are taken down whole are
// included. It reads the rows of all batches.
func Collections(ctx context.Context, s *Snapshot) ([]ImportedCollection, error) {
	var batches []PublishedBatch
	for b, err := range s.Batches(ctx, "") {
		if err != nil {
			return nil, fmt.Errorf("catalog: batches: %w", err)
		}
		if b.Collection.Name != "" {
			batches = append(batches, b)
		}
	}
	slices.SortStableFunc(batches, func(a, b PublishedBatch) int {
		return cmp.Or(strings.Compare(a.Collection.Name, b.Collection.Name), cmp.Compare(a.N, b.N))
	})
	var all []ImportedCollection
	for _, b := range batches {
		if len(all) == 0 || all[len(all)-1].Name != b.Collection.Name {
			all = append(all, ImportedCollection{Collection: b.Collection, TakenDown: CollectionDown(s, b.Collection.Name)})
		}
		of := &all[len(all)-1]
		of.Source, of.Licence = cmp.Or(b.Collection.Source, of.Source), cmp.Or(b.Collection.Licence, of.Licence)
		if !slices.Contains(of.Editions, b.Edition) {
			of.Editions = append(of.Editions, b.Edition)
		}
	}
	return all, nil
}

// Entries walks the collection's entries of the hosts whose keys begin with prefix: edition by
// edition, and within an edition in the order of the keys.
func (c *ImportedCollection) Entries(ctx context.Context, s *Snapshot, prefix string) iter.Seq2[SegmentEntry, error] {
	return func(yield func(SegmentEntry, error) bool) {
		for _, name := range c.Editions {
			for l, err := range s.EditionUnder(ctx, name, prefix) {
				if (err != nil || l.Collection == c.Name) && !yield(l, err) {
					return
				}
			}
		}
	}
}

// CollectionDown reports whether a take-down of the collection is in force for any host.
func CollectionDown(s *Snapshot, name string) bool {
	return len(s.taken(func(t Tombstone) bool { return t.Collection == name })) > 0
}
