package serve

import (
	"context"
	"fmt"
	"slices"

	"sheaf/archive"
)

// Resolve returns the page that a Revisit, of whatever call, refers to; nil where
// that is not here, or not any more.
func (c *Capture) Resolve(ctx context.Context) (*Capture, error) {
	if c.Kind != archive.Revisit || c.Original != nil {
		return c.Original, nil
	}
	pages, err := c.host.resolved(ctx, c.URLKey)
	if err != nil {
		return nil, fmt.Errorf("what %.200s refers to: %w", c.URL, err)
	}
	return pages.of(c), nil
}

// resolved are the pages of one URL key of a host, as the last call of resolved made
// them: a search comes to the revisits of a URL one after another, and each must
// not read all that there is beside it anew.
func (h *host) resolved(ctx context.Context, key string) (*originals, error) {
	h.last.Lock()
	defer h.last.Unlock()
	if h.last.pages != nil && h.last.key == key {
		return h.last.pages, nil
	}
	beside, err := h.ofKey(ctx, []*host{h}, key)
	if err != nil {
		return nil, err
	}
	h.last.key, h.last.pages = key, originalsOf(beside)
	return h.last.pages, nil
}

// resolve finds what revisits refer to, among the records of one URL key by time.
func resolve(captures []*Capture) {
	pages := originalsOf(captures)
	for _, c := range captures {
		if c.Kind == archive.Revisit {
			c.Original = pages.of(c)
		}
	}
}

// originals are the pages of one URL key, by what a revisit says of the one that
// it refers to.
type originals struct {
	at      map[fetched]*Capture   // the last published of an instant
	ordered map[content][]*Capture // by time
}

// content is what a page and its revisits have in common.
type content struct{ url, digest string }

// fetched is content at an instant.
type fetched struct {
	content
	seconds int64
	nanos   int
}

func originalsOf(captures []*Capture) *originals {
	o := &originals{make(map[fetched]*Capture), make(map[content][]*Capture)}
	for _, c := range captures {
		if c.Kind == archive.Page {
			id := content{c.URL, c.Digest}
			o.at[fetched{id, c.Time.Unix(), c.Time.Nanosecond()}] = c
			o.ordered[id] = append(o.ordered[id], c)
		}
	}
	return o
}

// of gives the page of the instant that a revisit names, or else the latest before it; nil where there is none.
func (o *originals) of(c *Capture) *Capture {
	id := content{c.URL, c.Digest}
	if page := o.at[fetched{id, c.RefersDate.Unix(), c.RefersDate.Nanosecond()}]; page != nil {
		return page
	}
	pages := o.ordered[id]
	n, _ := slices.BinarySearchFunc(pages, c, byPlace)
	if n == 0 {
		return nil
	}
	return pages[n-1]
}
