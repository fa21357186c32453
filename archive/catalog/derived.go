package catalog

import "context"

// DerivedIndex is an index that another package derives from the catalog and keeps in the catalog's
// store. The catalog knows only where the index is.
type DerivedIndex interface {
	// Prefix returns the prefix of all its objects' keys. The prefix ends with a slash.
	Prefix() string
	// Needs returns a function that reports whether the index needs an object. An object that the
	// index does not need must never be needed later, unless the object is younger than
	// CollectOptions.Delay.
	Needs(ctx context.Context) (func(key string) bool, error)
	// Check is for Fsck. It calls need for every object that the index needs, with the object's
	// size in bytes, and problem for everything that is wrong. It returns an error only if it could
	// not check.
	Check(ctx context.Context, deep bool, need func(key string, size int64) error, problem func(where, detail string)) error
}
