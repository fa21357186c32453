package results

import (
	"context"
	"fmt"
	"io"
	"strings"

	"sheaf/archive"
	"sheaf/internal/api"
	"sheaf/internal/cache"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/records"
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

// Gather runs a query and adds the records to a file in a form such as ".warc.gz". It calls found
// after each record. If several revisits refer to a page, the file has the page once, unless they
// are far apart.
func Gather(ctx context.Context, q *records.Query, from *records.Records, a *account.Account, to *Builder, form string, b records.Budget, found func()) (next *records.Cursor, err error) {
	originals := q.Originals(strings.HasSuffix(form, ".tar.gz"))
	return q.Run(ctx, from, a, b, func(c records.Record) error {
		found()
		if originals && c.Kind == archive.Revisit {
			original, err := c.Resolve(ctx)
			if err != nil {
				return err
			}
			if original != nil {
				if err := to.Add(ctx, original); err != nil {
					return err
				}
			}
		}
		return to.Add(ctx, c.Capture)
	})
}

// Tabulate runs a query and adds the records to a table. It calls found after each record. In a
// table of links of the latest versions, pages that were found unchanged have their links, too.
func Tabulate(ctx context.Context, q *records.Query, from *records.Records, a *account.Account, to TableSink, b records.Budget, found func()) (next *records.Cursor, err error) {
	if links, ok := to.(*linkWriter); ok {
		links.follow = q.Latest()
	}
	return q.Run(ctx, from, a, b, func(c records.Record) error {
		found()
		return to.Add(ctx, c.Capture)
	})
}

// MakeOf makes the table called name, one of tree.VolumeTables, about the segments of hosts. hosts
// are in the order of the tree.
func (x *Files) MakeOf(ctx context.Context, from *records.Records, a *account.Account, name string, hosts []*library.Host) (*Table, error) {
	if name == api.TableOfHosts {
		return x.Hosts(ctx, a, func() ([]api.Coverage, error) { return library.CoverageOfHosts(ctx, x.Archive, a, hosts) })
	}
	return x.Make(ctx, a, name, OfBodies, func(to TableSink) error {
		for _, h := range hosts {
			err := from.OfHost(ctx, a, h, func(c *records.Capture) error { return to.Add(ctx, c) })
			if err != nil {
				return err
			}
		}
		return nil
	})
}
