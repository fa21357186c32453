package records

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/serve/account"
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

// Captures returns the records of a URL by time and, for one instant, by publication. As in other
// web archives, records are found by the URL key (see naming.SURT): http and https, and the host
// with and without www, count as one URL, and Cell.URL tells them apart. Looking is allowed outside
// the account's window, too; bodies need a permit (see account.Access). Searches for URLs that have
// very many records take turns: many readers who ask for such a URL at once do not fill the memory.
func (r *Records) Captures(ctx context.Context, a *account.Account, url string) ([]*Capture, error) {
	name, err := naming.HostOf(url)
	if err != nil {
		return nil, nil // no record has such a URL
	}
	v, err := r.archive.View(ctx, a)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	hosts, err := siteHosts(ctx, v, name)
	if err != nil {
		return nil, fmt.Errorf("captures of %.200s: %w", url, err)
	}
	f := r.finder(a)
	leave := func() {}
	defer func() { leave() }()
	f.enter = func() error {
		select {
		case r.many <- struct{}{}:
			leave = func() { <-r.many }
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	captures, err := f.ofKey(ctx, hosts, naming.SURT(url))
	f.enter = nil // for captures, which may use f
	if err != nil {
		return nil, fmt.Errorf("captures of %.200s: %w", url, err)
	}
	return captures, setOriginals(ctx, captures)
}

// Resolve returns the page or other answer to which a Revisit refers, or nil if it is not in the
// archive.
func (c *Capture) Resolve(ctx context.Context) (*Capture, error) {
	if c.Kind != archive.Revisit || c.Original != nil {
		return c.Original, nil
	}
	if c.RefersTo != "" {
		return c.finder.elsewhere(ctx, c)
	}
	pages, err := c.finder.pagesOf(ctx, c.host, c.URLKey)
	if err != nil {
		return nil, fmt.Errorf("what %.200s refers to: %w", c.URL, err)
	}
	return pages.of(c), nil
}

// elsewhere returns the page at another URL to which a revisit refers, as the account sees it now,
// or nil. Only imported revisits refer to another URL.
func (f *finder) elsewhere(ctx context.Context, c *Capture) (*Capture, error) {
	name, err := naming.HostOf(c.RefersTo)
	if err != nil || f.account == nil {
		return nil, nil
	}
	v, err := f.records.archive.View(ctx, f.account)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	h, err := v.Host(ctx, naming.HostPath(name))
	if err == nil && h != nil {
		var pages *originals
		if pages, err = f.pagesOf(ctx, h, naming.SURT(c.RefersTo)); err == nil {
			return pages.of(c), nil
		}
	}
	if err != nil {
		err = fmt.Errorf("what %.200s refers to: %w", c.URL, err)
	}
	return nil, err
}

// lastPages are the pages of one URL key of one host, as pagesOf returned them last. A search
// reaches the revisits of a URL one after another, and each revisit would read all records of the
// URL again.
type lastPages struct {
	mu    sync.Mutex // guards what follows
	host  *library.Host
	key   string
	pages *originals
}

// pagesOf returns the pages of one URL key of a host.
func (f *finder) pagesOf(ctx context.Context, h *library.Host, key string) (*originals, error) {
	last := &f.last
	last.mu.Lock()
	defer last.mu.Unlock()
	if last.host == h && last.key == key {
		return last.pages, nil
	}
	captures, err := f.ofKey(ctx, []*library.Host{h}, key)
	if err != nil {
		return nil, err
	}
	last.host, last.key, last.pages = h, key, originalsOf(captures)
	return last.pages, nil
}

// setOriginals sets the Original of the revisits among captures. These are the records of one URL
// key, in the order of time.
func setOriginals(ctx context.Context, captures []*Capture) (err error) {
	var pages *originals
	for _, c := range captures {
		if pages == nil && c.Kind == archive.Revisit {
			pages = originalsOf(captures)
		}
		switch {
		case c.Kind != archive.Revisit:
		case c.RefersTo != "":
			if c.Original, err = c.finder.elsewhere(ctx, c); err != nil {
				return err
			}
		default:
			c.Original = pages.of(c)
		}
	}
	return nil
}

// originals finds, among the answers of one URL key, the answer to which a revisit refers.
type originals struct {
	at      map[fetch]*Capture           // the last published of an instant
	ordered map[version][]*Capture       // in the order of time
	fetched map[recordsMoment][]*Capture // in the order of time
}

// recordsMoment is a URL at a second. WARC/1.0 has no fractions.
type recordsMoment struct {
	url     string
	seconds int64
}

// version is what a page and its revisits have in common.
type version struct{ url, digest string }

// fetch is a version at an instant.
type fetch struct {
	version
	seconds int64
	nanos   int
}

func originalsOf(captures []*Capture) *originals {
	o := &originals{make(map[fetch]*Capture), make(map[version][]*Capture), make(map[recordsMoment][]*Capture)}
	for _, c := range captures {
		if c.Kind.HasFile() || c.Kind == archive.Response {
			id := version{c.URL, c.Digest}
			o.at[fetch{id, c.Time.Unix(), c.Time.Nanosecond()}] = c
			o.ordered[id] = append(o.ordered[id], c)
			second := recordsMoment{c.URL, c.Time.Unix()}
			o.fetched[second] = append(o.fetched[second], c)
		}
	}
	return o
}

// of returns the answer with a revisit's digest to which the revisit refers, or nil: the answer of
// the instant that the revisit names, or else the latest before it. Another crawler's digest may be
// of another algorithm, or of the body as it was sent. Then the URL and the instant tell which
// answer is meant: of several, the last with the revisit's status, or else the last.
func (o *originals) of(c *Capture) *Capture {
	id := version{cmp.Or(c.RefersTo, c.URL), c.Digest}
	if page := o.at[fetch{id, c.RefersDate.Unix(), c.RefersDate.Nanosecond()}]; page != nil {
		return page
	}
	pages := o.ordered[id]
	n, _ := slices.BinarySearchFunc(pages, c, byTime)
	if n > 0 {
		return pages[n-1]
	}
	if imported := c.RefersTo != "" || !strings.HasPrefix(c.Digest, "sha256:"); !imported || c.RefersDate.IsZero() {
		return nil
	}
	var meant *Capture
	for _, answer := range o.fetched[recordsMoment{id.url, c.RefersDate.Unix()}] {
		if meant == nil || answer.Status == c.Status || meant.Status != c.Status {
			meant = answer
		}
	}
	return meant
}
