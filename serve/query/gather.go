package query

import (
	"context"
	"strings"

	"sheaf/archive"
	"sheaf/serve"
)

// Gather looks for what the query asks and puts it into a file of a form, such as
// ".warc.gz". Found is told after each record how many there are. A page that several revisits
// refer to stands in the file once, unless they are far apart.
func (q *Query) Gather(ctx context.Context, l *serve.Library, a *serve.Account, to *serve.Gatherer, form string, b Budget, found func()) (next *Cursor, err error) {
	originals := strings.HasSuffix(form, ".tar.gz")
	if q.originals != nil {
		originals = *q.originals
	}
	return q.Run(ctx, l, a, b, func(c Record) error {
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
