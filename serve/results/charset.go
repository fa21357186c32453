package results

import (
	"context"

	"golang.org/x/sync/errgroup"

	"sheaf/serve/records"
	"sheaf/serve/texts"
)

const writtenAtOnce = 8 // records that are read at the same time

// setWritten sets the charset and the language of each row from its record.
func setWritten(ctx context.Context, rows []row, of []*records.Capture) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writtenAtOnce)
	for i, c := range of {
		g.Go(func() (err error) {
			r := &rows[i]
			r.Charset, r.Language, err = c.Written(ctx)
			r.Languages = texts.ISO3(r.Language)
			return err
		})
	}
	return g.Wait()
}
