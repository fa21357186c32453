package records

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"sheaf/archive"
	"sheaf/serve/visible"
)

// Resolve returns the page that a Revisit refers to; nil if that is not here, or not any more.
func (c *Capture) Resolve(ctx context.Context) (*Capture, error) {
	if c.Kind != archive.Revisit || c.Original != nil {
		return c.Original, nil
	}
	pages, err := c.finder.pagesOf(ctx, c.host, c.URLKey)
	if err != nil {
		return nil, fmt.Errorf("what %.200s refers to: %w", c.URL, err)
	}
	return pages.of(c), nil
}

// lastPages are the pages of one URL key of one host, as pagesOf returned them last. A search
// reaches the revisits of a URL one after another, and each is not to read all records of the URL
// again.
type lastPages struct {
	mu    sync.Mutex // guards what follows
	host  *visible.Host
	key   string
	pages *originals
}

// pagesOf returns the pages of one URL key of a host.
func (f *finder) pagesOf(ctx context.Context, h *visible.Host, key string) (*originals, error) {
	last := &f.last
	last.mu.Lock()
	defer last.mu.Unlock()
	if last.host == h && last.key == key {
		return last.pages, nil
	}
	captures, err := f.ofKey(ctx, []*visible.Host{h}, key)
	if err != nil {
		return nil, err
	}
	last.host, last.key, last.pages = h, key, originalsOf(captures)
	return last.pages, nil
}

// setOriginals sets the Original of revisits among the records of one URL key, which are in the
// order of time.
func setOriginals(captures []*Capture) {
	pages := originalsOf(captures)
	for _, c := range captures {
		if c.Kind == archive.Revisit {
			c.Original = pages.of(c)
		}
	}
}

// originals are the pages of one URL key, by what a revisit says of the page that it refers to.
type originals struct {
	at      map[fetch]*Capture     // the last published of an instant
	ordered map[version][]*Capture // in the order of time
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
	o := &originals{make(map[fetch]*Capture), make(map[version][]*Capture)}
	for _, c := range captures {
		if c.Kind == archive.Page {
			id := version{c.URL, c.Digest}
			o.at[fetch{id, c.Time.Unix(), c.Time.Nanosecond()}] = c
			o.ordered[id] = append(o.ordered[id], c)
		}
	}
	return o
}

// of returns the page of the instant that a revisit names, or else the latest before the revisit;
// nil if there is none.
func (o *originals) of(c *Capture) *Capture {
	id := version{c.URL, c.Digest}
	if page := o.at[fetch{id, c.RefersDate.Unix(), c.RefersDate.Nanosecond()}]; page != nil {
		return page
	}
	pages := o.ordered[id]
	n, _ := slices.BinarySearchFunc(pages, c, byTime)
	if n == 0 {
		return nil
	}
	return pages[n-1]
}
