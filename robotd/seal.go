package robotd

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"sheaf/robotd/batch"
	"sheaf/robotd/client"
	"sheaf/robotd/crawl"
	"sheaf/robotd/revisit"
)

// Sealer makes batches of what was collected.
type Sealer struct {
	Batches *batch.Store
	Watched *revisit.Pages
	List    *client.Assignment
	Crawler *crawl.Crawler
	Express time.Duration // between two express batches, at least; 0: there are none
	Log     *slog.Logger
}

// Seal makes a batch of all that was collected, after an express batch if one is due. It goes on
// when ctx ends: the robot seals once more at its end, and would have to begin a broken-off batch
// anew.
func (s *Sealer) Seal(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if s.Express > 0 {
		if err := s.sealExpress(ctx, 0); err != nil {
			return err
		}
	}
	if c := s.Crawler.Current(); c != nil {
		if err := c.AccountLeft(); err != nil {
			return err
		}
	}
	if _, err := s.Batches.Seal(ctx, s.List.List().Generation); err != nil {
		return fmt.Errorf("sealing: %w", err)
	}
	return nil
}

// sealExpress makes a batch of the hosts with a change of a watched page, unless the last express
// batch was made less than rest ago.
func (s *Sealer) sealExpress(ctx context.Context, rest time.Duration) error {
	hosts := s.Watched.TakeChanged(time.Now(), rest)
	if len(hosts) == 0 {
		return nil
	}
	id, err := s.Batches.SealExpress(context.WithoutCancel(ctx), s.List.List().Generation, hosts)
	if err != nil {
		s.Watched.PutBack(hosts)
		return fmt.Errorf("sealing watched pages: %w", err)
	}
	if err := s.Watched.Sealed(); err != nil {
		return err
	}
	if id != "" {
		s.Log.InfoContext(ctx, "a change of a watched page is handed in", "batch", id, "hosts", len(hosts))
	}
	return nil
}
