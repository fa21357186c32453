package serve

import (
	"context"
	"errors"
	"fmt"
	"io"

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

// writeLong writes the part of an ls -lR that is of one archive of the host, under
// the path that listings show. Every file's year stands in the place of its hour, so
// that the text does not depend on when it is read.
func (h *host) writeLong(ctx context.Context, w io.Writer, base, place string) error {
	if _, err := fmt.Fprintf(w, "./%s:\ntotal 0\n", place); err != nil {
		return err
	}
	a := h.archive(base)
	for _, f := range forms {
		if !a.offers(f) {
			continue
		}
		e, err := a.file(ctx, base+f.suffix, f)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "-r--r--r--   1 ftp      ftp      %12d %s %s\n", e.Size, e.Modified.UTC().Format("Jan _2  2006"), e.Name)
		if err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w)
	return err
}
