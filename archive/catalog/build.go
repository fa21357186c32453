package catalog

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"time"

	"sheaf/archive/store"
	"sheaf/internal/scratch"
)

// buildRun writes a run to a temporary file, row by row as fill adds them, and
// stores it under a name that no other attempt has. Until a version names the
// run nobody looks at it.
func (c *Catalog) buildRun(ctx context.Context, k kind, version int64, fill func(*runWriter) error) (ref runRef, err error) {
	f, err := scratch.File(c.opt.TempDir)
	if err != nil {
		return ref, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := newRunWriter(f, c.lib.codec, c.opt.BlockSize)
	if err := fill(w); err != nil {
		return ref, err
	}
	if ref, err = w.finish(); err != nil {
		return ref, err
	}
	ref.Name = runPrefix + seqKey(version) + "-" + strings.ToLower(rand.Text())
	ref.built = time.Now()
	return ref, c.write(string(k)+writeRun, func() error { return c.storeRun(ctx, f, ref) })
}

// storeRun puts a run. A put that failed may have stored it all the same, and
// perhaps not yet durably; so it is put once more: the name is this attempt's
// own, and where the store says that it is taken, the run is there, whole and durable.
func (c *Catalog) storeRun(ctx context.Context, f io.ReaderAt, ref runRef) error {
	put := func() error { return c.lib.store.Put(ctx, ref.Name, io.NewSectionReader(f, 0, ref.Size), ref.Size) }
	failed := put()
	if failed == nil {
		return nil
	}
	if err := put(); err != nil && !errors.Is(err, store.ErrExists) {
		return failed
	}
	return nil
}
