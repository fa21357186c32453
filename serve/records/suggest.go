package records

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/urlindex"
	"sheaf/internal/media"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// Limits of Suggest.
const (
	suggestSegments = 8    // how many of a host's newest segments it looks at
	suggestRecords  = 4096 // how many records it looks at on either side
)

// errStop ends a scan before its end.
var errStop = errors.New("stop")

// longestKey is more than the length of any URL's key.
const longestKey = 1 << 20

// Suggest returns up to n URLs of pages that are most like a URL, the most alike first. They are of
// the URL's host and of its namesakes with and without www. Suggest is for readers that ask for a
// page that is not here.
func (r *Records) Suggest(ctx context.Context, a *account.Account, url string, n int) ([]string, error) {
	name, err := naming.HostOf(url)
	if err != nil {
		return nil, nil
	}
	v, err := r.archive.View(ctx, a)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	hosts, err := siteHosts(ctx, v, name)
	if err != nil {
		return nil, fmt.Errorf("pages near %.200s: %w", url, err)
	}
	key := naming.SURT(url)
	alike := make(map[string]int) // by URL: how many bytes of the key are the same; less for pages that are no text
	// Since keys are sorted, the most alike are beside the place where the URL would be.
	f := r.finder(a)
	for _, reverse := range []bool{false, true} {
		beside, looked := make(map[string]bool), 0
		s := scan{finder: f, hosts: hosts, keys: siteKeys(name), after: &urlindex.Position{Key: key}, reverse: reverse, wanted: newest(hosts, suggestSegments)}
		err := s.each(ctx, func(is *found) error {
			if c := is.capture(f); c != nil && c.Kind == archive.Page {
				beside[c.URL] = true
				alike[c.URL] = common(key, c.URLKey)
				if !media.IsHTML(c.MIME) {
					alike[c.URL] -= longestKey
				}
			}
			if looked++; len(beside) >= 2*n || looked >= suggestRecords {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			return nil, fmt.Errorf("pages near %.200s: %w", url, err)
		}
	}
	urls := slices.SortedFunc(maps.Keys(alike), func(a, b string) int {
		return cmp.Or(-cmp.Compare(alike[a], alike[b]), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	return urls[:min(n, len(urls))], nil
}

// newest returns a test for segments that are among the n newest of their host.
func newest(hosts []*library.Host, n int) func(*catalog.SegmentEntry) bool {
	from := make(map[string]int64) // by host: number of the first of them
	for _, h := range hosts {
		from[h.Name] = h.Segments[max(0, len(h.Segments)-n)].Seq
	}
	return func(seg *catalog.SegmentEntry) bool { return seg.Seq >= from[seg.Host] }
}

// common returns the length of the longest common prefix of two strings, in bytes.
func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
