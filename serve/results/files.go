package results

import (
	"context"
	"fmt"
	"io"

	"sheaf/internal/cache"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// Files makes and opens bundles and tables. Its methods may be called concurrently.
type Files struct {
	Archive *library.Library
	Access  *account.Access
}

// File is a finished file of what a query found: a *Bundle or a *Table. It does not change.
type File interface {
	Records() int64 // of a bundle, with the pages that revisits refer to; of a table, its rows
	Size() int64    // bytes
	Save(io.Writer) error

	memory() int64                    // about what it takes in memory and on the disk, in bytes
	check(*library.AccountView) error // fails with library.ErrChanged if not all of it may be given out now
	entry() *library.Entry            // without a name
}

// GetOrBuild returns what build makes. If build was called before with the same key, for the same
// catalog version, scope and rules, it may return that file.
func (x *Files) GetOrBuild(ctx context.Context, a *account.Account, key string, build func(context.Context) (File, error)) (File, error) {
	v, err := x.Archive.View(ctx, a)
	if err != nil {
		return nil, err
	}
	key = fmt.Sprintf("file %d %s %s", v.Snap.Version(), v.Seen(), key)
	v.Release()
	return cache.GetOrCompute(ctx, x.Archive.Memo, key, func(ctx context.Context) (File, int64, error) {
		made, err := build(ctx)
		if err != nil {
			return nil, 0, err
		}
		return made, made.memory(), nil
	})
}

// Open opens a file for an account, and calls it name. It fails with library.ErrChanged if
// something in the file may have been withdrawn since, or if the account may not see all of it.
func (x *Files) Open(ctx context.Context, a *account.Account, f File, name string) (*library.File, error) {
	v, err := x.Archive.View(ctx, a)
	if err != nil {
		return nil, err
	}
	if err := f.check(v); err != nil {
		v.Release()
		return nil, err
	}
	e := f.entry()
	e.Name = name
	return library.Open(ctx, e, x.Access, a, v.Release)
}
