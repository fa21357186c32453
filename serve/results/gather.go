package results

import (
	"context"
	"strings"

	"sheaf/archive"
	"sheaf/serve/account"
	"sheaf/serve/records"
)

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
