package catalog

import "context"

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
