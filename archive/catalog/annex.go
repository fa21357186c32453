package catalog

import (
	"context"
	"strings"

	"sheaf/archive/store"
)

// Annex is what another package keeps in the catalog's store and derives from what the
// catalog says, such as an index. The catalog knows nothing of it but where it is.
type Annex interface {
	// Prefix begins the keys of all its objects, sorts behind "segments/", and ends with a slash.
	Prefix() string
	// Needs gives a function that tells whether an object is needed. One that is not must
	// never come to be needed later, unless it is younger than CollectOptions.Delay.
	Needs(ctx context.Context) (func(key string) bool, error)
}

// CheckedAnnex is an Annex that Fsck can check.
type CheckedAnnex interface {
	Annex
	// Check tells need of every object that is needed, with its size in bytes, and problem of what is
	// wrong. The error is of the check itself.
	Check(ctx context.Context, deep bool, need func(key string, size int64) error, problem func(where, detail string)) error
}

// annexNeeds is an annex as one collection sees it.
type annexNeeds struct {
	prefix string
	needs  func(key string) bool
}

// askAnnexes asks what the annexes need, before their objects are listed.
func (k *collector) askAnnexes(ctx context.Context) error {
	for _, a := range k.opt.Annexes {
		needs, err := a.Needs(ctx)
		if err != nil {
			return err
		}
		k.annexes = append(k.annexes, annexNeeds{a.Prefix(), needs})
	}
	return nil
}

// annexOf gives the annex that an object belongs to, or nil.
func (k *collector) annexOf(key string) *annexNeeds {
	for i := range k.annexes {
		if strings.HasPrefix(key, k.annexes[i].prefix) {
			return &k.annexes[i]
		}
	}
	return nil
}

// checkAnnexes lets the annexes be checked, and notes what they need.
func (f *fsck) checkAnnexes() error {
	for _, a := range f.opt.Annexes {
		err := a.Check(f.ctx, f.opt.Deep, f.needWhole, func(where, detail string) { f.report.problem(where, "%s", detail) })
		if err != nil {
			return err
		}
	}
	return nil
}

// leftOver counts an object that its annex does not need any more, and reports whether it is such.
func (f *fsck) leftOver(info store.Info) bool {
	for _, a := range f.opt.Annexes {
		if strings.HasPrefix(info.Key, a.Prefix()) {
			f.report.LeftOver++
			f.report.LeftOverBytes += info.Size
			return true
		}
	}
	return false
}
