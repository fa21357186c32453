package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/account"
)

// nearSegments is how many of a host's segments, the newest, Near looks into.
const nearSegments = 8

// nearRecords is how many records Near looks at on either side.
const nearRecords = 4096

// maxKey is more than any URL's key is long.
const maxKey = 1 << 20

// Near returns up to n pages of the host of a URL, and of its namesakes with and
// without www, whose addresses are most like it, the most alike first. It is for who asks for a page
// that is not here.
func (l *Library) Near(ctx context.Context, a *account.Account, url string, n int) ([]string, error) {
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
	// As keys are sorted, the most alike are beside the place where it would be.
	for _, reverse := range []bool{false, true} {
		beside, looked := make(map[string]bool), 0
		s := scan{visit: v, hosts: hosts, keys: siteKeys(name), after: &Position{Key: key}, reverse: reverse, wanted: newest(hosts, nearSegments)}
		err := s.each(ctx, func(is *found) error {
			if c := is.capture(); c != nil && c.Kind == archive.Page {
				beside[c.URL] = true
				alike[c.URL] = common(key, c.URLKey)
				if !strings.HasPrefix(c.MIME, "text/html") {
					alike[c.URL] -= maxKey
				}
			}
			if looked++; len(beside) >= 2*n || looked >= nearRecords {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			return nil, fmt.Errorf("pages near %.200s: %w", url, err)
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

// newest lets a host's last lines pass.
func newest(hosts []*host, n int) func(*catalog.SegmentEntry) bool {
	from := make(map[string]int64) // by host: the first that passes
	for _, h := range hosts {
		from[h.name] = h.lines[max(0, len(h.lines)-n)].Seq
	}
	return func(l *catalog.SegmentEntry) bool { return l.Seq >= from[l.Host] }
}

// common is the length of what two strings begin with.
func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
