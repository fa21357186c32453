package serve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"sheaf/archive"
)

// nearSegments is how many of a host's segments, the newest, Near looks into.
const nearSegments = 8

// maxKey is more than any URL's key is long.
const maxKey = 1 << 20

// Near returns up to n pages of the host of a URL, and of its namesakes with and
// without www, whose addresses are most like it, the most alike first. It is for who asks for a page
// that is not here.
func (l *Library) Near(ctx context.Context, a *Account, url string, n int) ([]string, error) {
	name, err := archive.HostOf(url)
	if err != nil {
		return nil, nil
	}
	v, err := l.visit(ctx, a)
	if err != nil {
		return nil, err
	}
	defer v.snap.Release()
	hosts, err := v.site(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("pages near %.200s: %w", url, err)
	}
	key := archive.SURT(url)
	alike := make(map[string]int) // by URL: how much of the key is the same; of what is no page to read, less than of any
	for _, h := range hosts {
		for _, line := range h.lines[max(0, len(h.lines)-nearSegments):] {
			segment, err := h.sorted(ctx, line)
			if err != nil {
				return nil, fmt.Errorf("pages near %.200s: %w", url, err)
			}
			at := sort.Search(len(segment.order), func(i int) bool { return segment.Cells[segment.order[i]].URLKey >= key })
			// As keys are sorted, the most alike are beside the place where it would be.
			for _, i := range segment.order[max(0, at-2*n):min(len(segment.order), at+2*n)] {
				if c := &segment.Cells[i]; c.Kind == archive.Page && !h.gone(line, c.URL) {
					alike[c.URL] = common(key, c.URLKey)
					if !strings.HasPrefix(c.MIME, "text/html") {
						alike[c.URL] -= maxKey
					}
				}
			}
		}
	}
	urls := make([]string, 0, len(alike))
	for u := range alike {
		urls = append(urls, u)
	}
	slices.SortFunc(urls, func(a, b string) int {
		return cmp.Or(-cmp.Compare(alike[a], alike[b]), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	return urls[:min(n, len(urls))], nil
}

// common is the length of what two strings begin with.
func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
