package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"sheaf/serve/account"

	"github.com/klauspost/pgzip"
)

// fileLong is an edition's files as ls -lR lists them, for programs that compare
// trees without walking them.
const fileLong = "ls-lR.gz"

// zipped writes what write writes, compressed: the same bytes each time.
func zipped(w io.Writer, write func(io.Writer) error) error {
	z, err := pgzip.NewWriterLevel(w, pgzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := z.SetConcurrency(tileBlock, 2); err != nil {
		return err
	}
	return errors.Join(write(z), z.Close())
}

// writeLong writes the part of an ls -lR that is of some archives of the host, under
// the path that listings show. Every file's year stands in the place of its hour, so
// that the text does not depend on when it is read.
func (h *host) writeLong(ctx context.Context, w io.Writer, place string, archives ...selection) error {
	if _, err := fmt.Fprintf(w, "./%s:\ntotal 0\n", place); err != nil {
		return err
	}
	for _, a := range archives {
		for _, f := range forms {
			if !a.offers(f) {
				continue
			}
			e, err := a.listedFile(ctx, f)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(w, "-r--r--r--   1 ftp      ftp      %12d %s %s\n", e.Size, e.Modified.UTC().Format("Jan _2  2006"), e.Name)
			if err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintln(w)
	return err
}

// longOfAll finds /ls-lR.gz: the editions' files of every host. It is made when it is
// asked for, once for each version of the catalog and scope, in one pass over the
// catalog, and lies in a temporary file. What changes with every edition (current, all,
// MANIFEST) is not in it: to know its size, all segments' indexes would have to be read.
func (v *visit) longOfAll(ctx context.Context) (*entry, error) {
	key := func(v *visit) string { return fmt.Sprintf("%d %q", v.snap.Version(), v.scope) }
	made, ok := v.spools.Get(key(v))
	if !ok {
		// Who gives up leaves the work to go on, and what it looks at is its own.
		done := v.spools.flight.DoChan(key(v), func() (any, error) {
			ctx := context.WithoutCancel(ctx)
			v, err := v.visit(ctx, v.account)
			if err != nil {
				return nil, err
			}
			defer v.snap.Release()
			v.spooling <- struct{}{}
			defer func() { <-v.spooling }()
			s, err := newSpool(v.snap.Published(), func(w io.Writer) error {
				return zipped(w, func(w io.Writer) error { return v.writeLongOfAll(ctx, w) })
			})
			if err != nil {
				return nil, err
			}
			v.spools.Add(key(v), s, s.size)
			return s, nil
		})
		select {
		case r := <-done:
			if r.Err != nil {
				return nil, r.Err
			}
			made = r.Val
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	s := made.(*spool)
	return &entry{
		Node: Node{Name: fileLong, Size: s.size, Modified: whole(s.at), Type: "application/gzip", SHA256: s.sha256, ETag: `"` + s.sha256[:32] + `"`},
		open: func(context.Context) (ranges, error) { return s, nil },
	}, nil
}

func (v *visit) writeLongOfAll(ctx context.Context, w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	for _, root := range v.scope {
		for _, prefix := range subtree(root) {
			for h, err := range v.hostsOf(v.snap.Entries(ctx, prefix)) {
				if err != nil {
					return err
				}
				if !account.Within(h.place, root) {
					continue
				}
				place, err := v.shown(ctx, h.place)
				if err != nil {
					return err
				}
				if err := h.writeLong(ctx, out, place, slices.Collect(h.brought())...); err != nil {
					return err
				}
			}
		}
	}
	return out.Flush()
}
