package tree

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/pgzip"

	"sheaf/internal/cache"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// zipBlock is how much text is compressed at once, in bytes. The file's bytes depend on it.
const zipBlock = 1 << 20

// zipped compresses what write writes: to the same bytes each time.
func zipped(w io.Writer, write func(io.Writer) error) error {
	z, err := pgzip.NewWriterLevel(w, pgzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := z.SetConcurrency(zipBlock, 2); err != nil {
		return err
	}
	return errors.Join(write(z), z.Close())
}

// longText returns a text that may be long. It is written once for all readers with the same
// version and scope. write may run on when its reader has gone, so it gets a finder of its own.
func (f *finder) longText(ctx context.Context, d library.Document, write func(f *finder, ctx context.Context, w io.Writer) error) (*library.Entry, error) {
	d.Spools = f.view.Archive.Spools
	d.Write = func(ctx context.Context, w io.Writer) error {
		own := f.view.Again()
		if own == nil {
			return cache.ErrLeft
		}
		defer own.Release()
		return write(&finder{f.tree, own}, ctx, w)
	}
	return d.Entry(ctx, f.view.Archive.Memo)
}

// listingOfAll returns /ls-lR.gz: the editions' files of every host, in one pass over the catalog.
// Files that change with every edition (current, all, MANIFEST) are not in it, since all segments'
// indexes would have to be read for their sizes.
func (f *finder) listingOfAll(ctx context.Context) (*library.Entry, error) {
	d := library.Document{
		Name: fileListing, Type: "application/gzip", Modified: f.view.Modified(f.view.Snap.Published(), "", library.Any),
		Key: fmt.Sprintf("all %d %s", f.view.Snap.Version(), f.view.Seen()),
	}
	return f.longText(ctx, d, func(f *finder, ctx context.Context, w io.Writer) error {
		return zipped(w, func(w io.Writer) error { return f.writeListingOfAll(ctx, w) })
	})
}

func (f *finder) writeListingOfAll(ctx context.Context, w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	for _, root := range f.view.Scope {
		for _, prefix := range library.KeyPrefixes(root) {
			for h, err := range f.view.HostsOf(f.view.Snap.Entries(ctx, prefix, "")) {
				if err != nil {
					return err
				}
				if !account.Within(h.Place, root) {
					continue
				}
				place, err := f.shown(ctx, h.Place)
				if err != nil {
					return err
				}
				if err := h.WriteListings(ctx, out, place); err != nil {
					return err
				}
			}
		}
	}
	return out.Flush()
}
