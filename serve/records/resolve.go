package records

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"sheaf/archive"
	"sheaf/archive/naming"
	"sheaf/serve/library"
)

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
