package tree

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/pgzip"

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

// listing is a /ls-lR.gz in a temporary file.
type listing struct {
	*library.TempFile
	modified time.Time
}

// listingOfAll returns /ls-lR.gz: the editions' files of every host. It is made when it is asked
// for, once for each version of the catalog and scope, in one pass over the catalog. It lies in a
// temporary file. Files that change with every edition (current, all, MANIFEST) are not in it,
// since all segments' indexes would have to be read for their sizes.
func (f *finder) listingOfAll(ctx context.Context) (*library.Entry, error) {
	key := fmt.Sprint(f.view.Snap.Version())
	s, err := library.Shared(ctx, f.view, f.tree.texts, key, func(ctx context.Context, v *library.AccountView) (listing, int64, error) {
		f.tree.writing <- struct{}{}
		defer func() { <-f.tree.writing }()
		s, err := library.NewTempFile(func(w io.Writer) error {
			return zipped(w, func(w io.Writer) error { return (&finder{f.tree, v}).writeListingOfAll(ctx, w) })
		})
		if err != nil {
			return listing{}, 0, err
		}
		return listing{s, v.Modified(v.Snap.Published(), "", library.Any)}, s.Size, nil
	})
	if err != nil {
		return nil, err
	}
	return &library.Entry{
		Node: library.Node{
			Name: fileListing, Size: s.Size, Modified: library.Seconds(s.modified), Type: "application/gzip",
			SHA256: s.SHA256, ETag: `"` + s.SHA256[:32] + `"`,
		},
		Open: func(context.Context) (library.Ranges, error) { return s, nil },
	}, nil
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
				if err := library.Of(h, f.view.Archive).WriteListings(ctx, out, place); err != nil {
					return err
				}
			}
		}
	}
	return out.Flush()
}
