package catalog

import "context"

// sweeper marks objects that nothing needs, and deletes those that were marked long enough ago.
type sweeper struct {
	catalog *Catalog
	head    *state
	marks   *marks
	report  *Collection

	down []downed // to be erased in the catalog, then deleted
}

// downed is an object that nothing needs, with the taken-down entries in it.
type downed struct {
	Candidate
	entries []SegmentEntry
}

// perErase limits the objects that are erased by one version.
const perErase = 1000

// take handles an object that nothing needs: it marks the object, leaves it until its mark is old
// enough, or deletes it.
func (s *sweeper) take(ctx context.Context, d downed) error {
	m, err := s.marks.of(ctx, d.Key)
	if err != nil {
		return err
	}
	switch {
	case m == unmarked:
		s.report.Condemned.add(d.Candidate)
		return s.marks.add(ctx, d.Candidate)
	case m == markWait:
		s.report.Waiting.add(d.Candidate)
		return nil
	case d.Reason == ReasonTakenDown:
		if s.down = append(s.down, d); len(s.down) < perErase {
			return nil
		}
		return s.deleteDown(ctx)
	}
	return s.delete(ctx, d.Candidate)
}

// delete deletes one object, unless this is a dry run, and counts it.
func (s *sweeper) delete(ctx context.Context, c Candidate) error {
	if !s.report.DryRun {
		err := s.catalog.opt.Boundary.Write(writeCollect, func() error { return s.catalog.lib.store.Delete(ctx, c.Key) })
		if err != nil {
			return err
		}
	}
	s.report.Deleted.add(c)
	return nil
}

// deleteDown records the erasure of the entries in s.down in the catalog, then deletes their
// objects. It leaves objects whose take-down was lifted meanwhile.
func (s *sweeper) deleteDown(ctx context.Context) error {
	down := s.down
	s.down = nil
	if stones := s.erasures(down); !s.report.DryRun && len(stones) > 0 {
		if err := s.catalog.erase(ctx, stones); err != nil {
			return err
		}
	}
	now := s.catalog.current().tombstones
	for _, d := range down {
		if !s.report.DryRun && !now.erased(d.entries) {
			continue
		}
		if err := s.delete(ctx, d.Candidate); err != nil {
			return err
		}
	}
	return nil
}

// erasures returns an erasure for each take-down that covers an entry in the objects.
func (s *sweeper) erasures(down []downed) (stones []Tombstone) {
	seen := make(map[Tombstone]bool)
	for _, d := range down {
		for _, e := range d.entries {
			for _, t := range s.head.tombstones[e.SURT] {
				erase := t
				erase.By, erase.Through = "collection", s.head.NextSeq-1
				if t.Act == TakeDown && t.covers(e) && !seen[erase] {
					seen[erase] = true
					stones = append(stones, erase)
				}
			}
		}
	}
	return stones
}
