package demo

import (
	"context"
	"fmt"
	"time"
)

// trouble tells why batches do not arrive, such as a disk that is too full for uploads, until ctx
// ends. It tells each reason of each robot once.
func (d *day) trouble(ctx context.Context, n int) {
	told := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		for i, r := range d.robots {
			status, err := r.Status()
			if err != nil {
				continue
			}
			var reasons []string
			for _, b := range status.Spool {
				reasons = append(reasons, b.Error)
			}
			for _, t := range status.Targets {
				if t.Failures > 0 {
					reasons = append(reasons, t.Error)
				}
			}
			for _, why := range reasons {
				if key := robots[i] + " " + why; why != "" && !told[key] {
					told[key] = true
					d.to.Tell(Event{Kind: "waiting", Day: n, Text: fmt.Sprintf("day %d: the batch of %s waits: %s", n, robots[i], why)})
				}
			}
		}
	}
}
