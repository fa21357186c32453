package query

import (
	"context"
	"strings"

	"sheaf/archive"
	"sheaf/serve/account"
	"sheaf/serve/bundle"
	"sheaf/serve/records"
	"sheaf/serve/tables"
)

// Gather runs the query and adds the records to a file in a form such as ".warc.gz". It calls found
// after each record. If several revisits refer to a page, the file has the page once, unless they
// are far apart.
func (q *Query) Gather(ctx context.Context, from *records.Records, a *account.Account, to *bundle.Builder, form string, b Budget, found func()) (next *Cursor, err error) {
	originals := strings.HasSuffix(form, ".tar.gz")
	if q.originals != nil {
		originals = *q.originals
	}
	return q.Run(ctx, from, a, b, func(c Record) error {
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

// Tabulate runs the query and adds the records to a table. It calls found after each record.
func (q *Query) Tabulate(ctx context.Context, from *records.Records, a *account.Account, to tables.Sink, b Budget, found func()) (next *Cursor, err error) {
	return q.Run(ctx, from, a, b, func(c Record) error {
		found()
		return to.Add(ctx, c.Capture)
	})
}
