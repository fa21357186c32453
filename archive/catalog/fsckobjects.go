package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
	"sheaf/internal/wire"
)

// need notes that an object's bytes from start up to end are needed. Only empty ranges of one
// object may overlap. For an object that may be missing, start and end are -1.
func (f *fsck) need(key string, start, end int64) error {
	if err := store.CheckKey(key); err != nil {
		f.report.problem(key, "%v", err)
		return nil
	}
	return f.needed.Add(fmt.Appendf(nil, "%s %020d %020d\n", key, end+1, start+1))
}

// needWhole notes that an object of at least this size is needed. It may be called several times
// for an object.
func (f *fsck) needWhole(key string, size int64) error { return f.need(key, size, size) }

// IncomingPrefix begins the keys of batches that are not published yet. Only ingest puts and
// deletes these objects.
const IncomingPrefix = "incoming/"

// OwnerKey is the key of the object that names the store's installation.
const OwnerKey = "installation"

// keptPrefixes begin the keys of objects that are kept although nothing refers to them.
var keptPrefixes = []string{
	"batches/",  // the batches' manifests
	"releases/", // the robots' programs; not part of the archive
	"current/",  // the volumes of the latest versions; derived, like tables
	"tables/",   // of volumes; derived, and deleted by their maker
	IncomingPrefix,
	OwnerKey,
	listPrefix,
}

// checkObjects compares the ranges that were noted with the store's listing. Both are in the order
// of their keys.
func (f *fsck) checkObjects(ctx context.Context) error {
	needed, err := f.needed.Rows(ctx)
	if err != nil {
		return err
	}
	for info, err := range f.lib.store.List(ctx, "", "") {
		if err != nil {
			return err
		}
		for needed.Row() != nil && neededKey(needed.Row()) < info.Key {
			if err := f.takeNeeded(ctx, needed, nil); err != nil {
				return err
			}
		}
		f.report.Objects++
		switch {
		case needed.Row() != nil && neededKey(needed.Row()) == info.Key:
			if err := f.takeNeeded(ctx, needed, &info); err != nil {
				return err
			}
		case f.opt.Index != nil && strings.HasPrefix(info.Key, f.opt.Index.Prefix()):
			f.report.LeftOver++
			f.report.LeftOverBytes += info.Size
		case !slices.ContainsFunc(keptPrefixes, func(p string) bool { return strings.HasPrefix(info.Key, p) }):
			f.report.OrphanBytes += info.Size
			if f.report.Orphans++; len(f.report.OrphanKeys) < maxListed {
				f.report.OrphanKeys = append(f.report.OrphanKeys, info.Key)
			}
		}
	}
	for needed.Row() != nil {
		if err := f.takeNeeded(ctx, needed, nil); err != nil {
			return err
		}
	}
	return nil
}

func neededKey(row []byte) string {
	key, _, _ := strings.Cut(string(row), " ")
	return key
}

// takeNeeded reads all rows of one key. It checks that the ranges do not overlap, and that the
// object is large enough for all of them. info is nil if the store has no such object.
func (f *fsck) takeNeeded(ctx context.Context, needed *sortedrun.Merged, info *store.Info) error {
	key := neededKey(needed.Row())
	var bytes int64
	for needed.Row() != nil && neededKey(needed.Row()) == key {
		var start, end int64
		if _, err := fmt.Sscanf(string(needed.Row()[len(key)+1:]), "%d %d", &end, &start); err != nil {
			return err
		}
		if start < bytes && start < end {
			f.report.problem(key, "two segments overlap: one ends at %d, another is from %d to %d", bytes-1, start-1, end-1)
		}
		bytes = end
		if err := needed.Next(ctx); err != nil {
			return err
		}
	}
	bytes--
	switch {
	case info == nil && bytes >= 0:
		f.report.problem(key, "is missing")
	case info != nil && info.Size < bytes:
		f.report.problem(key, "has %d bytes, the catalog refers to %d", info.Size, bytes)
	}
	return nil
}

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
