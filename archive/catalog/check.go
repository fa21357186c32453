package catalog

import (
	"context"
	"fmt"

	"sheaf/archive/store"
)

// Check returns an error if the store has lost or changed the log's last version, or lost the
// oldest or the newest of its runs. It is a quick check for monitoring; Fsck checks everything.
func (c *Catalog) Check(ctx context.Context) error {
	held, err := c.refresh(ctx)
	if err != nil {
		return fmt.Errorf("catalog: %w", err)
	}
	now, err := c.log.read(ctx, held.N)
	if err != nil {
		return fmt.Errorf("catalog: version %d: %w", held.N, err)
	}
	if now.digest != held.digest {
		return fmt.Errorf("catalog: version %d has changed since it was read: %w", held.N, ErrCorrupt)
	}
	for i, ref := range now.Runs {
		if i != 0 && i != len(now.Runs)-1 {
			continue
		}
		if _, err := store.ReadAll(ctx, c.log.Store, ref.Name, ref.Size-1, 1); err != nil {
			return fmt.Errorf("catalog: %s of version %d: %w", ref.Name, held.N, err)
		}
	}
	return nil
}
