package ingest

import (
	"context"
	"fmt"
	"path"
	"strings"

	"sheaf/internal/wire"
)

// Claims gives a function that tells whether an object of the store belongs to a
// batch that may still be published: received, pre-split or post-split. Objects
// are named by batch and attempt, and an attempt that is over never takes them up
// again, so what is not claimed now will not be. It is for the catalog's collection,
// and fails where the catalog ends before the last version that published a
// batch: then versions are lost, and nothing may be collected.
func (i *Ingest) Claims(ctx context.Context) (func(key string) bool, error) {
	if err := i.checkHead(ctx); err != nil {
		return nil, err
	}
	ids, err := i.ledger.underWay(ctx)
	if err != nil {
		return nil, err
	}
	return func(key string) bool {
		name := path.Base(key)
		for _, id := range ids {
			if strings.Contains(name, string(id)+"-") {
				return true
			}
		}
		return false
	}, nil
}

// checkHead compares the catalog's end with what was told of it.
func (i *Ingest) checkHead(ctx context.Context) error {
	last, err := i.ledger.lastVersion(ctx) // before the catalog is read, which only grows
	if err != nil {
		return err
	}
	s, err := i.opt.Catalog.Pin(ctx)
	if err != nil {
		return err
	}
	defer s.Release()
	if n := s.Version(); n < last {
		return fmt.Errorf("the catalog ends at version %d, but version %d published a batch: its record is lost; see sheaf fsck, and restore it before anything is collected", n, last)
	}
	return nil
}

// lastVersion gives the highest version that published a batch; 0 for none.
func (l *ledger) lastVersion(ctx context.Context) (n int64, err error) {
	err = l.db.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM ingest_batches`).Scan(&n)
	return n, err
}

// underWay gives the batches that may still be published.
func (l *ledger) underWay(ctx context.Context) (ids []wire.BatchID, err error) {
	rows, err := l.db.QueryContext(ctx, `SELECT batch FROM ingest_batches WHERE state IN ('received', 'pre-split', 'post-split')`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id wire.BatchID
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
