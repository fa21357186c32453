package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/urlindex"
	"sheaf/internal/wire"
)

// Fsck checks the store that the settings name against its catalog, and where deep is true reads and
// verifies every segment. It changes nothing, and a service may be running. A data directory must be
// there: a wrong name is not to be taken for an empty catalog.
func Fsck(ctx context.Context, cfg Config, deep bool) (_ *catalog.Report, err error) {
	if dir, ok := cfg.StoreDir(); ok {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("fsck: %w (give the service's data directory with --data)", err)
		}
	}
	objects, err := OpenStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	return catalog.Fsck(ctx, objects, catalog.FsckOptions{
		Deep:    deep,
		Annexes: []catalog.CheckedAnnex{urlindex.NewAnnex(objects, "")},
		Verify:  func(ctx context.Context, l catalog.Line) error { return verifyLine(ctx, objects, l) },
	})
}

// verifyLine reads a segment and compares what it is with what its line says.
func verifyLine(ctx context.Context, objects store.Store, l catalog.Line) (err error) {
	r, err := objects.Open(ctx, l.Object, l.Offset, l.Length)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	opt := archive.VerifyOptions{Host: l.Host}
	for name := range l.Views {
		if name != wire.ViewOthers { // which is not of the segment
			opt.Views = append(opt.Views, archive.ViewKind(name))
		}
	}
	found, err := archive.VerifySegment(r, opt)
	if err != nil {
		return err
	}
	return errors.Join(compareLine(l, found), verifyOthers(ctx, objects, l))
}

// verifyOthers reads what lies of a host beside its batch.
func verifyOthers(ctx context.Context, objects store.Store, l catalog.Line) (err error) {
	want, ok := l.Views[wire.ViewOthers]
	if !ok {
		return nil
	}
	key := wire.OthersKey(wire.BatchID(l.Batch))
	r, err := objects.Open(ctx, key, want.Offset, want.Size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want.SHA256 {
		return fmt.Errorf("%d bytes at %d of %s have SHA-256 %s, the catalog says %s", want.Size, want.Offset, key, got, want.SHA256)
	}
	return nil
}

func compareLine(l catalog.Line, found *archive.Summary) error {
	switch {
	case found.SHA256 != l.SHA256:
		return fmt.Errorf("SHA-256 is %s, the catalog says %s", found.SHA256, l.SHA256)
	case found.IndexOffset != l.IndexOffset || found.IndexLength != l.IndexLength:
		return fmt.Errorf("index cell is %d bytes at %d, the catalog says %d at %d",
			found.IndexLength, found.IndexOffset, l.IndexLength, l.IndexOffset)
	case found.Records != l.Records || found.Revisits != l.Revisits || found.Files != l.Files:
		return fmt.Errorf("holds %d records, %d revisits, %d files, the catalog says %d, %d, %d",
			found.Records, found.Revisits, found.Files, l.Records, l.Revisits, l.Files)
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
