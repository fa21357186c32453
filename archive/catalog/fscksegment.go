package catalog

import (
	"context"
	"errors"
	"fmt"

	"sheaf/archive/store"
	"sheaf/internal/wire"
)

// segmentCheck checks the segments and manifests that versions name.
type segmentCheck struct {
	store      store.Store
	deep       bool
	verify     func(context.Context, SegmentEntry) error // of a deep check
	tombstones tombstones
	objects    *objectCheck
	report     *Report
}

// segment notes that an entry's bytes are needed, unless they may be deleted already. A deep check
// also verifies them.
func (c *segmentCheck) segment(ctx context.Context, e SegmentEntry, expired bool) error {
	c.report.Segments++
	c.report.Bytes += e.Length
	if expired || c.tombstones.cover(e) {
		return c.objects.need(e.Object, -1, -1) // it may be deleted already
	}
	if err := c.objects.need(e.Object, e.Offset, e.Offset+e.Length); err != nil {
		return err
	}
	if others, ok := e.Views[wire.ViewOthers]; ok {
		if err := c.objects.need(wire.OthersKey(wire.BatchID(e.Batch)), others.Offset, others.Offset+others.Size); err != nil {
			return err
		}
	}
	if !c.deep {
		return nil
	}
	var beside *Damage
	switch err := c.verify(ctx, e); {
	case errors.As(err, &beside):
		c.report.problem(beside.Key, "beside the segment of %s in %s: %v", e.Host, e.Object, err)
	case err != nil:
		c.report.problem(e.Object, "segment of %s, %d bytes at %d: %v", e.Host, e.Length, e.Offset, err)
	}
	c.report.Verified++
	return ctx.Err()
}

// compareDigest returns a FsckOptions.Verify that compares only the segment's SHA-256 with its
// entry's.
func compareDigest(st store.Store) func(context.Context, SegmentEntry) error {
	return func(ctx context.Context, e SegmentEntry) error {
		got, err := store.Digest(ctx, st, e.Object, e.Offset, e.Length)
		if err != nil {
			return err
		}
		if got != e.SHA256 {
			return fmt.Errorf("SHA-256 is %s, the catalog says %s", got, e.SHA256)
		}
		return nil
	}
}

// manifest checks that a batch's manifest is there. A deep check compares its digest.
func (c *segmentCheck) manifest(ctx context.Context, b Batch) error {
	if b.Manifest == "" {
		return nil
	}
	key := wire.ManifestKey(wire.BatchID(b.ID))
	if err := c.objects.needWhole(key, 0); err != nil || !c.deep {
		return err
	}
	data, err := store.ReadAll(ctx, c.store, key, 0, -1)
	if errors.Is(err, store.ErrNotExist) {
		return nil // objectCheck reports it
	}
	if c.report.failed(key, err) {
		return ctx.Err()
	}
	if got := wire.Digest(data); got != b.Manifest {
		c.report.problem(key, "SHA-256 is %s, the catalog says %s", got, b.Manifest)
	}
	return nil
}
