package ingest

import (
	"context"
	"path"
	"strings"

	"sheaf/internal/wire"
)

// Claims gives a function that tells whether an object of the store belongs to a
// batch that may still be published: received, pre-split or post-split. Objects
// are named by batch and attempt, and an attempt that is over never takes them up
// again, so what is not claimed now will not be. It is for the catalog's collection.
func (i *Ingest) Claims(ctx context.Context) (func(key string) bool, error) {
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
