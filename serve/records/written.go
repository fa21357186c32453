package records

import (
	"context"
	"errors"

	"sheaf/archive"
	"sheaf/internal/media"
	"sheaf/serve/texts"
)

// Written returns the charset of a page or another answer, as replay shows it, and a page's
// language, as BCP 47 has it. They are empty if the record has no text of its own, or is damaged.
// It reads the beginning of the record.
func (c *Capture) Written(ctx context.Context) (charset, language string, err error) {
	if !c.Kind.HasFile() && c.Kind != archive.Response || !media.IsText(media.Sniff(c.MIME, nil)) && c.MIME != archive.UnknownMIME {
		return "", "", nil
	}
	answer, head, err := c.Beginning(ctx, texts.HeadBytes)
	if _, ok := errors.AsType[*DamageError](err); ok {
		return "", "", nil
	}
	if err != nil || len(head) == 0 || !media.IsText(media.Sniff(answer.ContentType(), head)) {
		return "", "", err
	}
	if texts.IsPage(answer.ContentType(), head) {
		language = texts.Language(head, answer.ContentType())
	}
	return texts.CharsetName(media.DetectCharset(head, answer.ContentType()).Name), language, nil
}

// written returns one of Written's results; for a revisit, its page's.
func written(ctx context.Context, c *Capture, name string) (string, error) {
	page, err := c.Resolve(ctx)
	if page == nil {
		page = c
	}
	if err != nil {
		return "", err
	}
	charset, language, err := page.Written(ctx)
	if name == fieldLanguage {
		return language, err
	}
	return charset, err
}
