package records

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/urlindex"
	"sheaf/internal/media"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// Records finds and reads an archive's records. Its methods may be called concurrently.
type Records struct {
	archive *library.Library
	urls    *urlindex.Reader
	damaged atomic.Int64
	many    chan struct{} // has an element while Captures finds many records
}

// New returns the records of an archive. urls finds them; nil: the segments' own indexes do.
func New(from *library.Library, urls *urlindex.Reader) *Records {
	return &Records{archive: from, urls: urls, many: make(chan struct{}, 1)}
}

// Damaged returns how many times this process has read a record that is damaged in the store.
func (r *Records) Damaged() int64 { return r.damaged.Load() }

// finder finds records of hosts. It does not refer to a view of the catalog, so captures may use it
// after the view was released.
type finder struct {
	records *Records
	index   func(context.Context) *urlindex.View // as it was at the first call
	last    lastPages
	account *account.Account // who must see the pages at other URLs to which revisits refer

	// enter, if set, is called when ofKey has found manyRecords. Its error ends the search.
	enter func() error
}

// manyRecords of a URL take some 4 MB of memory.
const manyRecords = 10_000

func (r *Records) finder(a *account.Account) *finder {
	f := &finder{records: r, account: a}
	var once sync.Once
	var view *urlindex.View
	f.index = func(ctx context.Context) *urlindex.View {
		once.Do(func() { view = r.currentIndex(context.WithoutCancel(ctx)) })
		return view
	}
	return f
}

// currentIndex returns the URL index as it is now, or an empty one.
func (r *Records) currentIndex(ctx context.Context) *urlindex.View {
	if r.urls == nil {
		return new(urlindex.View)
	}
	view, err := r.urls.Current(ctx)
	if err != nil {
		r.archive.Log.ErrorContext(ctx, "URL index is not the newest", "err", err)
	}
	return view
}

// Published returns the segments of up to limit changes behind number since of the change feed,
// whoever may see them. last is the number up to which no segment is missing. If since is negative,
// it returns only the feed's last number. If since is greater than that number, because only
// another process has seen its publication yet, it returns only since.
func (r *Records) Published(ctx context.Context, since int64, limit int) (segments []catalog.SegmentEntry, last int64, err error) {
	snap, err := r.archive.Catalog.PinWithin(ctx, r.archive.Lag)
	if err != nil {
		return nil, 0, fmt.Errorf("serve: %w", err)
	}
	defer snap.Release()
	switch newest := snap.Last(); {
	case since < 0:
		return nil, newest, nil
	case since > newest:
		return nil, since, nil
	}
	changes, last, err := snap.Changes(ctx, since, "", limit)
	if err != nil {
		return nil, since, fmt.Errorf("serve: %w", err)
	}
	for _, c := range changes {
		if c.Entry != nil {
			segments = append(segments, *c.Entry)
		}
	}
	return segments, last, nil
}

// Latest returns segments of the latest limit changes: up to n that the account sees, newest first,
// one of each host.
func (r *Records) Latest(ctx context.Context, a *account.Account, n, limit int) (segments []catalog.SegmentEntry, err error) {
	v, err := r.archive.View(ctx, a)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	changes, _, err := v.Snap.Changes(ctx, max(0, v.Snap.Last()-int64(limit)), "", limit)
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	listed := make(map[string]bool)
	for _, c := range slices.Backward(changes) {
		if c.Entry != nil && len(segments) < n && !listed[c.Entry.Host] && v.Scope.Holds(naming.HostPath(c.Entry.Host)) {
			listed[c.Entry.Host] = true
			segments = append(segments, *c.Entry)
		}
	}
	return segments, nil
}

// OfHost calls f with each record of a host's segments, by URL key, time and publication. a is the
// account that sees the host. It ends with the first error.
func (r *Records) OfHost(ctx context.Context, a *account.Account, h *library.Host, f func(*Capture) error) error {
	from := r.finder(a)
	all := scan{finder: from, hosts: []*library.Host{h}, keys: siteKeys(h.Name), wanted: func(*catalog.SegmentEntry) bool { return true }}
	return all.each(ctx, func(is *found) error {
		if c := is.capture(from); c != nil {
			return f(c)
		}
		return nil
	})
}

// CountPages returns how many URL keys of a host have a page among the records that the account
// sees. It looks at every record.
func (r *Records) CountPages(ctx context.Context, a *account.Account, host string) (n int64, err error) {
	v, err := r.archive.View(ctx, a)
	if err != nil {
		return 0, err
	}
	defer v.Release()
	h, err := v.Host(ctx, naming.HostPath(host))
	if err != nil || h == nil {
		return 0, err
	}
	counted := ""
	err = r.OfHost(ctx, a, h, func(c *Capture) error {
		if c.Kind == archive.Page && c.URLKey != counted {
			counted = c.URLKey
			n++
		}
		return nil
	})
	return n, err
}

// Foremost returns the shortest URL of an HTML page that the account sees in a segment, and the
// time of its fetch. The URL is empty if there is no such page.
func (r *Records) Foremost(ctx context.Context, a *account.Account, seg catalog.SegmentEntry) (url string, at time.Time, err error) {
	err = r.Each(ctx, a, seg, func(c *archive.Cell) bool {
		if c.Kind == archive.Page && media.IsHTML(c.MIME) && (url == "" || len(c.URL) < len(url)) {
			url, at = c.URL, c.Time
		}
		return true
	})
	return url, at, err
}

// Each calls f with each record of a published segment that the account sees, until f returns
// false. f must not change the cells.
func (r *Records) Each(ctx context.Context, a *account.Account, seg catalog.SegmentEntry, f func(*archive.Cell) bool) error {
	if !a.Covers(seg.Host) {
		return nil
	}
	v, err := r.archive.View(ctx, a)
	if err != nil {
		return err
	}
	defer v.Release()
	if v.Veil.Hides(seg) {
		return nil
	}
	index, err := r.archive.Segments.Index(ctx, seg)
	if err != nil {
		return err
	}
	h := v.HostOf([]catalog.SegmentEntry{seg})
	for i := range index.Cells {
		if c := &index.Cells[i]; !h.Gone(seg, c.URL, c.Time) && !f(c) {
			return nil
		}
	}
	return nil
}
