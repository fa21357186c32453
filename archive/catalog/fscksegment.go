package catalog

import (
	"context"
	"errors"
	"fmt"

	"sheaf/archive/store"
	"sheaf/internal/wire"
)

// checkSegment notes that an entry's bytes are needed, unless they may be deleted already. A deep
// check also verifies them.
func (f *fsck) checkSegment(ctx context.Context, e SegmentEntry, expired bool) error {
	f.report.Segments++
	f.report.Bytes += e.Length
	if expired || f.tombstones.cover(e) {
		return f.need(e.Object, -1, -1) // it may be deleted already
	}
	if err := f.need(e.Object, e.Offset, e.Offset+e.Length); err != nil {
		return err
	}
	if others, ok := e.Views[wire.ViewOthers]; ok {
		if err := f.need(wire.OthersKey(wire.BatchID(e.Batch)), others.Offset, others.Offset+others.Size); err != nil {
			return err
		}
	}
	if !f.opt.Deep {
		return nil
	}
	var beside *Damage
	switch err := f.opt.Verify(ctx, e); {
	case errors.As(err, &beside):
		f.report.problem(beside.Key, "beside the segment of %s in %s: %v", e.Host, e.Object, err)
	case err != nil:
		f.report.problem(e.Object, "segment of %s, %d bytes at %d: %v", e.Host, e.Length, e.Offset, err)
	}
	f.report.Verified++
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

// checkManifest checks that a batch's manifest is there. A deep check compares its digest.
func (f *fsck) checkManifest(ctx context.Context, b Batch) error {
	if b.Manifest == "" {
		return nil
	}
	key := wire.ManifestKey(wire.BatchID(b.ID))
	if err := f.needWhole(key, 0); err != nil || !f.opt.Deep {
		return err
	}
	data, err := store.ReadAll(ctx, f.lib.store, key, 0, -1)
	if errors.Is(err, store.ErrNotExist) {
		return nil // checkObjects reports it
	}
	if f.report.failed(key, err) {
		return ctx.Err()
	}
	if got := wire.Digest(data); got != b.Manifest {
		f.report.problem(key, "SHA-256 is %s, the catalog says %s", got, b.Manifest)
	}
	return nil
}
