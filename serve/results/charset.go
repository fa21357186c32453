package results

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"

	"sheaf/archive"
	"sheaf/internal/media"
	"sheaf/serve/records"
)

const (
	charsetBytes   = 64 << 10 // of a text that are read to find its charset
	charsetsAtOnce = 8        // records that are read at the same time
)

// setCharsets sets the charset of the rows, which are of the records.
func setCharsets(ctx context.Context, rows []row, of []*records.Capture) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(charsetsAtOnce)
	for i, c := range of {
		g.Go(func() (err error) {
			rows[i].Charset, err = charsetOf(ctx, c)
			return err
		})
	}
	return g.Wait()
}

// charsetOf returns the charset in which a page or another answer is written, as replay shows it.
// It is empty if the record has no text of its own, or is damaged.
func charsetOf(ctx context.Context, c *records.Capture) (string, error) {
	if !c.Kind.HasFile() && c.Kind != archive.Response || !media.IsText(media.Sniff(c.MIME, nil)) && c.MIME != archive.UnknownMIME {
		return "", nil
	}
	answer, head, err := c.Beginning(ctx, charsetBytes)
	if damage := new(records.DamageError); errors.As(err, &damage) {
		return "", nil
	}
	if err != nil || len(head) == 0 || !media.IsText(media.Sniff(answer.ContentType(), head)) {
		return "", err
	}
	return charsetName(media.DetectCharset(head, answer.ContentType()).Name), nil
}

// charsetName returns the name of a charset as Common Crawl writes it, that of MIME such as
// Shift_JIS and UTF-8.
func charsetName(name string) string {
	enc, err := htmlindex.Get(name)
	if err != nil {
		return name
	}
	if preferred, err := ianaindex.MIME.Name(enc); err == nil {
		return preferred
	}
	return name // MIME has no name for some of the web's
}
