package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"golang.org/x/sync/errgroup"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
)

// Copied reports what Copy did.
type Copied struct {
	Objects int64 `json:"objects"` // that were copied
	Bytes   int64 `json:"bytes"`   // of these
	Present int64 `json:"present"` // objects that the copy had already
	Deleted int64 `json:"deleted"` // objects of the copy that the store does not have any more

	differ []string // keys of objects that have another size in the copy
}

// copying is how many objects are copied at once.
const copying = 8

// Copy brings a copy of a store up to date. Objects never change, so Copy does not read or write
// objects that the copy has; use Fsck to check the copy. If an object has another size in the copy,
// one of the two is damaged: Copy leaves both, copies everything else, and returns an error. It
// copies the catalog last, up to the version that was the last when Copy began, so the copy is
// always a whole, if older, archive. A service may be running. After an interrupted Copy, call it
// again.
//
// Batches that are not published yet are not copied: their robots have them.
//
// With prune, Copy then deletes objects from the copy that the store does not have any more,
// because they were taken down, expired or merged. Without prune, objects that are taken down stay
// in the copy. The store may also have lost objects, so Copy checks it with Fsck first, and returns
// an error instead of deleting if Fsck finds a problem.
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

// everything copies all objects that the copy does not have, except unpublished batches; the
// catalog comes last.
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

// agree returns an error if any object has another size in the copy.
func (c *Copied) agree() error {
	if len(c.differ) == 0 {
		return nil
	}
	return fmt.Errorf("copy: %d objects have another size in the copy, first %s: in one of the two they are damaged, and a deep fsck of each tells in which",
		len(c.differ), c.differ[0])
}

// missing copies the wanted objects that the copy does not have.
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

// prune deletes the objects that only the copy has.
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

// pair holds the objects under one key in two stores. A pointer is nil if its store has no such
// object.
type pair struct{ a, b *store.Info }

// pairs walks the objects of two stores in the order of their keys.
func pairs(ctx context.Context, a, b store.Store) iter.Seq2[pair, error] {
	return func(yield func(pair, error) bool) {
		nextA, stopA := iter.Pull2(a.List(ctx, "", ""))
		defer stopA()
		nextB, stopB := iter.Pull2(b.List(ctx, "", ""))
		defer stopB()
		inA, errA, moreA := nextA()
		inB, errB, moreB := nextB()
		for moreA || moreB {
			if err := cmp.Or(errA, errB); err != nil {
				yield(pair{}, err)
				return
			}
			var p pair
			if moreA && (!moreB || inA.Key <= inB.Key) {
				p.a = new(inA)
			}
			if moreB && (!moreA || inB.Key <= inA.Key) {
				p.b = new(inB)
			}
			if !yield(p, nil) {
				return
			}
			if p.a != nil {
				inA, errA, moreA = nextA()
			}
			if p.b != nil {
				inB, errB, moreB = nextB()
			}
		}
	}
}
