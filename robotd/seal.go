package robotd

import (
	"context"
	"fmt"
	"time"
)

// seal makes a batch of all that was collected, after an express batch if one is due. It goes on
// when ctx ends: the robot seals once more at its end, and would have to begin a broken-off batch
// anew.
func (r *Robot) seal(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if r.cfg.Express > 0 {
		if err := r.sealExpress(ctx, 0); err != nil {
			return err
		}
	}
	if c := r.crawler.Current(); c != nil {
		if err := c.AccountLeft(); err != nil {
			return err
		}
	}
	if _, err := r.records.Batches.Seal(ctx, r.list.List().Generation, nil); err != nil {
		return fmt.Errorf("sealing: %w", err)
	}
	return nil
}

// sealExpress makes a batch of the hosts with a change of a watched page, unless the last express
// batch was made less than rest ago.
func (r *Robot) sealExpress(ctx context.Context, rest time.Duration) error {
	return r.records.Watched.Express(time.Now(), rest, func(hosts map[string]bool) error {
		id, err := r.records.Batches.Seal(context.WithoutCancel(ctx), r.list.List().Generation, hosts)
		if err != nil {
			return fmt.Errorf("sealing watched pages: %w", err)
		}
		if id != "" {
			r.log.InfoContext(ctx, "a change of a watched page is handed in", "batch", id, "hosts", len(hosts))
		}
		return nil
	})
}
