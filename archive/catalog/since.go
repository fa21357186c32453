package catalog

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"sheaf/archive/store"
	"sheaf/internal/wire"
)

// Since walks the entries and erasures after sequence number since, in the order of sequence
// numbers. It includes entries that are taken down, because a take-down may be lifted, but no
// erased or expired entries. It is for indexes that are derived from all entries, and reads the
// runs of the versions after since. It returns ErrFuture if since is higher than any number that
// exists.
func (s *Snapshot) Since(ctx context.Context, since int64) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		if err := s.since(ctx, since, func(c Change) bool { return yield(c, nil) }); err != nil {
			yield(Change{}, fmt.Errorf("catalog: entries since %d: %w", since, err))
		}
	}
}

func (s *Snapshot) since(ctx context.Context, since int64, yield func(Change) bool) error {
	if _, err := s.live(); err != nil {
		return err
	}
	return s.follow(ctx, since, func(f *follower) (more bool, err error) {
		if f.entry.Kind != kindPublish && f.entry.Kind != kindErase {
			return true, nil
		}
		r, err := f.open(ctx)
		if err != nil {
			return false, err
		}
		if f.entry.Kind == kindErase {
			return f.tombstones(ctx, r, "", func(c Change) bool { return c.Tombstone.Act != Erase || yield(c) })
		}
		skip := func(l SegmentEntry) bool {
			return l.Seq <= since || s.catalog.current().tombstones.erased([]SegmentEntry{l})
		}
		return f.each(s.unexpired(ctx, pass(ctx, []*run{r}, tableHost), skip), yield)
	})
}

// Expired walks all expiries up to the version, in the order of their hosts' keys.
func (s *Snapshot) Expired(ctx context.Context) iter.Seq2[Expiry, error] {
	return decoded(s.rows(func(runs []*run) iter.Seq2[[]byte, error] { return pass(ctx, runs, tableExpired) }), expiryOfRow)
}

// RecordDigest returns the SHA-256 of the record of version n, in hexadecimal, or ErrNotExist. Each
// record holds the digest of the record before. So two logs with the same digest for a version are
// the same up to that version.
func RecordDigest(ctx context.Context, st store.Store, n int64) (string, error) {
	data, err := store.ReadAll(ctx, st, versionKey(n), 0, -1)
	if errors.Is(err, store.ErrNotExist) {
		return "", fmt.Errorf("catalog: version %d: %w", n, ErrNotExist)
	}
	if err != nil {
		return "", fmt.Errorf("catalog: version %d: %w", n, err)
	}
	return wire.Digest(data), nil
}
