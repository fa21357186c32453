package demo

import (
	"context"
	"fmt"
	"time"

	"sheaf/internal/loop"
)

// trouble reports, until ctx ends, why batches do not arrive: for example, a robot does not collect
// because its disk is too full, or the service refuses its batch. It reports each reason of each
// robot once.
func (d *day) trouble(ctx context.Context, n int) {
	told := map[string]bool{}
	tell := func(format string, args ...any) {
		text := fmt.Sprintf("day %d: ", n) + fmt.Sprintf(format, args...)
		if !told[text] {
			told[text] = true
			d.to.Tell(Event{Kind: "waiting", Day: n, Text: text})
		}
	}
	for {
		if !loop.Pause(ctx, time.Second) {
			return
		}
		for i, r := range d.robots {
			status, err := r.Status()
			if err != nil {
				continue
			}
			for _, warning := range status.Warnings {
				tell("%s: %s", robots[i], warning)
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
				if why != "" {
					tell("the batch of %s waits: %s", robots[i], why)
				}
			}
		}
	}
}
