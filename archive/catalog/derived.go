package catalog

import (
	"context"
	"strings"

	"sheaf/archive/store"
)

// DerivedIndex is what another package keeps in the catalog's store and derives from what the
// catalog says, such as an index. The catalog knows nothing of it but where it is.
type DerivedIndex interface {
	// Prefix begins the keys of all its objects, sorts behind "segments/", and ends with a slash.
	Prefix() string
	// Needs gives a function that tells whether an object is needed. One that is not must
	// never come to be needed later, unless it is younger than CollectOptions.Delay.
	Needs(ctx context.Context) (func(key string) bool, error)
}

// CheckedIndex is a DerivedIndex that Fsck can check.
type CheckedIndex interface {
	DerivedIndex
	// Check tells need of every object that is needed, with its size in bytes, and problem of what is
	// wrong. The error is of the check itself.
	Check(ctx context.Context, deep bool, need func(key string, size int64) error, problem func(where, detail string)) error
}

// indexNeeds is a derived index as one collection sees it.
type indexNeeds struct {
	prefix string
	needs  func(key string) bool
}

// askIndexes asks what the derived indexes need, before their objects are listed.
func (k *collector) askIndexes(ctx context.Context) error {
	for _, a := range k.opt.Indexes {
		needs, err := a.Needs(ctx)
		if err != nil {
			return err
		}
		k.indexes = append(k.indexes, indexNeeds{a.Prefix(), needs})
	}
	return nil
}

// indexOf gives the derived index that an object belongs to, or nil.
func (k *collector) indexOf(key string) *indexNeeds {
	for i := range k.indexes {
		if strings.HasPrefix(key, k.indexes[i].prefix) {
			return &k.indexes[i]
		}
	}
	return nil
}

// checkIndexes lets the derived indexes be checked, and notes what they need.
func (f *fsck) checkIndexes() error {
	for _, a := range f.opt.Indexes {
		err := a.Check(f.ctx, f.opt.Deep, f.needWhole, func(where, detail string) { f.report.problem(where, "%s", detail) })
		if err != nil {
			return err
		}
	}
	return nil
}

// leftOver counts an object that its index does not need any more, and reports whether it is such.
func (f *fsck) leftOver(info store.Info) bool {
	for _, a := range f.opt.Indexes {
		if strings.HasPrefix(info.Key, a.Prefix()) {
			f.report.LeftOver++
			f.report.LeftOverBytes += info.Size
			return true
		}
	}
	return false
}
