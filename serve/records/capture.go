package records

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/library"
)

// Capture is one record, as one account sees it in one version of the catalog. It can be read for
// hours after the call that returned it, because it does not need the catalog any more.
type Capture struct {
	*archive.Cell                       // must not be changed
	Segment       *catalog.SegmentEntry // that has the record; must not be changed
	// Original is the answer that a Revisit refers to; nil if that answer is not here, or no
	// longer. Only Captures sets it.
	Original *Capture

	host   *library.Host
	finder *finder
	before int64 // length of the segment's records before it in a WARC view, in bytes
}

// Stands reports whether the record has an answer that can be shown: its own or that of its
// Original. A Revisit without an Original stands if its status alone says what the answer was, such
// as a redirect.
func (c *Capture) Stands() bool {
	switch c.Kind {
	case archive.Page, archive.Partial, archive.Response:
		return true
	case archive.Revisit:
		return c.Original != nil || c.Status >= http.StatusMultipleChoices && c.Status != http.StatusNotModified
	}
	return false
}

// ID returns a name for the record, of eight hexadecimal digits. It distinguishes the records of a
// page in one second, and stays the same as long as the record is stored.
func (c *Capture) ID() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", c.Segment.SHA256, c.Offset))
	return hex.EncodeToString(sum[:4])
}

// Host returns the host of the record, as the account sees it.
func (c *Capture) Host() *library.Host { return c.host }

// Body opens the page's body, or that of a Revisit's Original. It fails with library.ErrNotFound if
// that record is not an archive.Page.
func (c *Capture) Body() (*archive.PageView, error) {
	if c.Original != nil {
		return c.Original.Body()
	}
	if c.Kind != archive.Page {
		return nil, fmt.Errorf("body of a %v: %w", c.Kind, library.ErrNotFound)
	}
	return archive.PageBodyOf(c.source(), c.Cell)
}

func (c *Capture) source() archive.Source {
	return c.finder.records.archive.Segments.Source(*c.Segment)
}

// Record opens the record itself as a WARC file has it, compressed: one gzip member of the WARC
// header, the stored HTTP header and the body.
func (c *Capture) Record(ctx context.Context) (io.ReadCloser, error) {
	record, err := archive.OpenRecord(ctx, c.source(), c.Cell)
	if err != nil {
		return nil, fmt.Errorf("record of %.200s: %w", c.URL, err)
	}
	return record, nil
}

// Place says where the record lies in its edition's WARC file of the host: the file's path in the
// tree, without the slash before it, and the offset in bytes. Its length is WARCLength.
func (c *Capture) Place(ctx context.Context) (file string, offset int64, err error) {
	file, offset, err = c.host.WARCOffset(ctx, *c.Segment, c.Offset, c.before)
	if err != nil {
		err = fmt.Errorf("place of %.200s: %w", c.URL, err)
	}
	return file, offset, err
}
