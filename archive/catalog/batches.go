package catalog

import (
	"context"
	"fmt"
)

// PublishedBatch says when a batch was published.
type PublishedBatch struct {
	Batch
	Version
}

// Batches gives up to limit published batches whose IDs sort behind after, in the
// order of their IDs: robot by robot, each by time. No limit is set by limit <= 0.
func (s *Snapshot) Batches(ctx context.Context, after string, limit int) ([]PublishedBatch, error) {
	runs, err := s.live()
	if err != nil {
		return nil, err
	}
	start := tableBatch
	if after != "" {
		start += after + "!" // sorts behind the space that ends the key
	}
	var batches []PublishedBatch
	for row, err := range scanFrom(ctx, runs, tableBatch, start) {
		if err != nil {
			return nil, fmt.Errorf("catalog: batches: %w", err)
		}
		if limit > 0 && len(batches) == limit {
			break
		}
		var b batchRow
		if err := rowValue(row, &b); err != nil {
			return nil, fmt.Errorf("catalog: batches: %w", err)
		}
		batches = append(batches, PublishedBatch{b.Batch, b.Version})
	}
	return batches, nil
}
