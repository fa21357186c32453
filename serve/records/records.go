// Package records finds single records: the answers that robots stored of a URL, a host, a domain or
// everything, in an order in which a place stays what it is.
//
// The URL index (archive/urlindex) finds them in the segments that it covers, and the segments' own
// indexes find them in the others. That makes no difference to what is found, nor to its order. A
// Capture is one record. It opens the answer as the server gave it, and checks that the stored bytes
// are those that were published.
package records

import (
	"context"
	"sync"
	"sync/atomic"

	"sheaf/archive/urlindex"
	"sheaf/serve/visible"
)

// Records are the records of an archive. Its methods may be called concurrently.
type Records struct {
	archive *visible.Archive
	urls    *urlindex.Reader
	damaged atomic.Int64
}

// New returns the records of an archive. urls finds them; nil: the segments' own indexes do.
func New(from *visible.Archive, urls *urlindex.Reader) *Records {
	return &Records{archive: from, urls: urls}
}

// Damaged returns how many times this process has read a record that is damaged in the store.
func (r *Records) Damaged() int64 { return r.damaged.Load() }

// finder finds records of hosts. It does not refer to a view of the catalog, so captures may use it
// after the view was released.
type finder struct {
	records *Records
	index   func(context.Context) *urlindex.View // as it was at the first call
	last    lastPages
}

func (r *Records) finder() *finder {
	f := &finder{records: r}
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
