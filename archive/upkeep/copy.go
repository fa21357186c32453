package upkeep

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
)

// Copied is what Copy did.
type Copied struct {
	Objects int64 `json:"objects"` // that were copied
	Bytes   int64 `json:"bytes"`   // of these
	Present int64 `json:"present"` // objects that the copy had
	Deleted int64 `json:"deleted"` // objects of the copy that the store does not have any more

	differ []string // keys of objects that have another size in the copy
}

// copying is how many objects are copied at once.
const copying = 8

// Copy brings a copy of a store up to date. Objects never change, so what the copy has is not read
// or written again; Fsck of the copy tells whether it is right. If an object has another size in
// the copy, one of the two is damaged: both stay, and after everything else is copied that is an
// error. The catalog is copied last, and only as far as it went at the beginning: so the copy is
// always an archive that is whole, if an older one. A service may be running, and a copy that was
// broken off is completed by another one.
//
// Batches that are not published yet are not copied: their robots have them.
//
// With prune, objects are deleted from the copy that the store does not have any more, because they
// were taken down, expired or merged. Without it, what is taken down stays in the copy. So that
// nothing is deleted there that the store has lost, the store is checked as by Fsck first, and a
// problem is an error.
func Copy(ctx context.Context, to, from store.Store, prune bool) (*Copied, error) {
	done := new(Copied)
	if err := done.everything(ctx, to, from); err != nil {
		return nil, err
	}
	if err := done.agree(); err != nil {
		return nil, err
	}
	if !prune {
		return done, nil
	}
	report, err := Fsck(ctx, from, false)
	if err != nil {
		return nil, fmt.Errorf("copy: %w", err)
	}
	if !report.OK() {
		p := report.Problems[0]
		return nil, fmt.Errorf("copy: nothing is deleted from the copy, because the store has %d problems, first %s: %s; repair it first",
			report.Found, p.Where, p.Detail)
	}
	return done, done.prune(ctx, to, from)
}

// everything copies what the copy does not have.
func (c *Copied) everything(ctx context.Context, to, from store.Store) error {
	last, err := lastVersion(ctx, from)
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	if last == "" {
		return errNoCatalog
	}
	isCatalog := func(key string) bool { return strings.HasPrefix(key, catalogPrefix) }
	for _, wanted := range []func(key string) bool{
		func(key string) bool { return !isCatalog(key) && !strings.HasPrefix(key, catalog.IncomingPrefix) },
		func(key string) bool { return isCatalog(key) && key <= last },
	} {
		if err := c.missing(ctx, to, from, wanted); err != nil {
			return fmt.Errorf("copy: %w", err)
		}
	}
	return nil
}

var errNoCatalog = errors.New("copy: the store has no catalog, so there is nothing to copy")

// lastVersion returns the key of the catalog's last version, or "" if there is none.
func lastVersion(ctx context.Context, objects store.Store) (last string, err error) {
	for info, err := range objects.List(ctx, catalogPrefix, "") {
		if err != nil {
			return "", err
		}
		last = info.Key
	}
	return last, nil
}

// agree returns an error if objects have another size in the copy.
func (c *Copied) agree() error {
	if len(c.differ) == 0 {
		return nil
	}
	return fmt.Errorf("copy: %d objects have another size in the copy, first %s: in one of the two they are damaged, and a deep fsck of each tells in which",
		len(c.differ), c.differ[0])
}

// missing copies those of the wanted objects that the copy does not have.
func (c *Copied) missing(ctx context.Context, to, from store.Store, wanted func(key string) bool) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(copying)
	for pair, err := range pairs(ctx, from, to) {
		if err != nil {
			return errors.Join(err, work.Wait())
		}
		switch {
		case pair.a == nil || !wanted(pair.a.Key):
			continue
		case pair.b != nil && pair.b.Size != pair.a.Size:
			c.differ = append(c.differ, pair.a.Key)
			continue
		case pair.b != nil:
			c.Present++
			continue
		}
		c.Objects, c.Bytes = c.Objects+1, c.Bytes+pair.a.Size
		work.Go(func() error {
			err := put(ctx, to, from, *pair.a, false)
			if errors.Is(err, store.ErrNotExist) {
				return nil // collected meanwhile
			}
			return err
		})
	}
	return work.Wait()
}

// prune deletes what only the copy has.
func (c *Copied) prune(ctx context.Context, to, from store.Store) error {
	for pair, err := range pairs(ctx, from, to) {
		if err != nil {
			return fmt.Errorf("copy: %w", err)
		}
		if pair.a != nil {
			continue
		}
		if err := to.Delete(ctx, pair.b.Key); err != nil {
			return fmt.Errorf("copy: %w", err)
		}
		c.Deleted++
	}
	return nil
}
