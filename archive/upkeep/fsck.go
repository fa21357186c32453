package upkeep

import (
	"context"
	"errors"
	"fmt"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/urlindex"
	"sheaf/internal/wire"
)

// Fsck checks the objects of a store against the store's catalog. If deep is true, it also reads
// and verifies every segment. It changes nothing, and a service may be running.
func Fsck(ctx context.Context, objects store.Store, deep bool) (*catalog.Report, error) {
	return fsck(ctx, objects, deep, nil)
}

// fsck is Fsck with damaged as catalog.FsckOptions.Damaged.
func fsck(ctx context.Context, objects store.Store, deep bool, damaged func(key string, named bool)) (*catalog.Report, error) {
	return catalog.Fsck(ctx, objects, catalog.FsckOptions{
		Deep:    deep,
		Damaged: damaged,
		Index:   urlindex.NewIndex(objects),
		Verify:  func(ctx context.Context, l catalog.SegmentEntry) error { return verifyLine(ctx, objects, l) },
	})
}

// verifyLine compares a segment, and the objects that an import kept beside it, with the catalog's
// entry.
func verifyLine(ctx context.Context, objects store.Store, l catalog.SegmentEntry) error {
	if err := verifySegment(ctx, objects, l); err != nil {
		return err
	}
	if err := verifyOthers(ctx, objects, l); err != nil {
		return &catalog.Damage{Key: wire.OthersKey(wire.BatchID(l.Batch)), Err: err}
	}
	return nil
}

// verifySegment reads a segment and compares it with the catalog's entry.
func verifySegment(ctx context.Context, objects store.Store, l catalog.SegmentEntry) (err error) {
	r, err := objects.Open(ctx, l.Object, l.Offset, l.Length)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	opt := archive.VerifyOptions{Host: l.Host}
	for name := range l.Views {
		if name != wire.ViewOthers { // it is in an object of its own
			opt.Views = append(opt.Views, archive.ViewKind(name))
		}
	}
	found, err := archive.VerifySegment(r, opt)
	if err != nil {
		return err
	}
	return compareLine(l, found)
}

// verifyOthers checks the host's records that an import kept beside its batch, if there are any.
func verifyOthers(ctx context.Context, objects store.Store, l catalog.SegmentEntry) error {
	want, ok := l.Views[wire.ViewOthers]
	if !ok {
		return nil
	}
	key := wire.OthersKey(wire.BatchID(l.Batch))
	got, err := store.Digest(ctx, objects, key, want.Offset, want.Size)
	if err == nil && got != want.SHA256 {
		err = fmt.Errorf("%d bytes at %d of %s have SHA-256 %s, the catalog says %s", want.Size, want.Offset, key, got, want.SHA256)
	}
	return err
}

func compareLine(l catalog.SegmentEntry, found *archive.Summary) error {
	switch {
	case found.SHA256 != l.SHA256:
		return fmt.Errorf("SHA-256 is %s, the catalog says %s", found.SHA256, l.SHA256)
	case found.IndexOffset != l.IndexOffset || found.IndexLength != l.IndexLength:
		return fmt.Errorf("index cell is %d bytes at %d, the catalog says %d at %d",
			found.IndexLength, found.IndexOffset, l.IndexLength, l.IndexOffset)
	case found.Records != l.Records || found.Revisits != l.Revisits || found.Files != l.Files:
		return fmt.Errorf("holds %d records, %d revisits, %d files, the catalog says %d, %d, %d",
			found.Records, found.Revisits, found.Files, l.Records, l.Revisits, l.Files)
	case l.Preferences != "" && found.Asked != l.Preferences:
		return fmt.Errorf("its robots.txt asks %q, the catalog says %q", found.Asked, l.Preferences)
	}
	for name, want := range l.Views {
		if name == wire.ViewOthers {
			continue
		}
		got := found.Views[archive.ViewKind(name)]
		if got.Size != want.Size || got.SHA256 != want.SHA256 || got.ETag != want.ETag {
			return fmt.Errorf("view %s is %d bytes of SHA-256 %s, ETag %s; the catalog says %d, %s, %s",
				name, got.Size, got.SHA256, got.ETag, want.Size, want.SHA256, want.ETag)
		}
	}
	return nil
}
