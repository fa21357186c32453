package library

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/internal/cache"
	"sheaf/internal/wire"
	"sheaf/serve/account"
)

// Library is an archive's catalog and its segments in the store. Accounts read it through views.
type Library struct {
	Catalog  *catalog.Catalog
	Segments *Segments
	Memo     *cache.Memo // caches what is computed of both
	Spools   *Spools     // keeps long texts
	Log      *slog.Logger
	Rules    *account.Rules // hide what not everybody may see; nil: nothing

	// Lag is how old the version of a view may be, if other processes publish. The catalog's log in
	// the object store is not read more often.
	Lag time.Duration
}

// View returns an account's view of the newest version, or of a version at most Lag old. It must be
// released.
func (x *Library) View(ctx context.Context, a *account.Account) (*AccountView, error) {
	return x.view(ctx, a, x.Lag)
}

// Newest is View of the newest version, whatever Lag is.
func (x *Library) Newest(ctx context.Context, a *account.Account) (*AccountView, error) {
	return x.view(ctx, a, 0)
}

func (x *Library) view(ctx context.Context, a *account.Account, lag time.Duration) (*AccountView, error) {
	scope := a.Scope()
	veil, err := x.Rules.Veil(ctx, a, scope)
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	snap, err := x.Catalog.PinWithin(ctx, lag)
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	v := &AccountView{Archive: x, Snap: snap, Account: a, Scope: scope, Veil: veil}
	v.users.Store(1)
	if veil != nil {
		snap.Hide(veil)
	}
	return v, nil
}

// Segments reads published segments.
type Segments struct {
	Store store.Store // if it is a *store.Backed, damaged segments are read from the copy
	Memo  *cache.Memo // keeps indexes
}

// IndexCost is about what a record takes in a cached index, in bytes.
const IndexCost = 600

// Source returns the stored bytes of a segment, from its first byte on.
func (s *Segments) Source(seg catalog.SegmentEntry) archive.Source {
	return store.Source(s.Store, seg.Object, seg.Offset)
}

// Others returns the stored records of a segment's host and batch that are in no segment: see
// warc.go.
func (s *Segments) Others(seg catalog.SegmentEntry) archive.Source {
	return store.Source(s.Store, wire.OthersKey(wire.BatchID(seg.Batch)), seg.Views[wire.ViewOthers].Offset)
}

// Index returns a segment's index. It must not be changed.
func (s *Segments) Index(ctx context.Context, seg catalog.SegmentEntry) (*archive.Index, error) {
	return cache.GetOrCompute(ctx, s.Memo, "index "+seg.SHA256, func(ctx context.Context) (*archive.Index, int64, error) {
		index, err := s.ReadIndex(ctx, seg)
		if err != nil {
			return nil, 0, err
		}
		return index, int64(1+len(index.Cells)) * IndexCost, nil
	})
}

// ReadIndex is Index without the cache.
func (s *Segments) ReadIndex(ctx context.Context, seg catalog.SegmentEntry) (*archive.Index, error) {
	index, err := archive.ReadIndexAt(ctx, s.Source(seg), seg.IndexOffset, seg.IndexLength)
	if _, ok := errors.AsType[*archive.FormatError](err); ok && s.Doubt(seg) {
		index, err = archive.ReadIndexAt(ctx, s.Source(seg), seg.IndexOffset, seg.IndexLength)
	}
	if err != nil {
		return nil, fmt.Errorf("index of %s in edition %s: %w", seg.Host, seg.Edition, err)
	}
	return index, nil
}

// Doubt notes that a segment's bytes differ from what was published. It reports whether reading
// them again is worth a try; see store.Backed.Doubt.
func (s *Segments) Doubt(seg catalog.SegmentEntry) bool {
	backed, ok := s.Store.(interface{ Doubt(key string) bool })
	return ok && backed.Doubt(seg.Object)
}
