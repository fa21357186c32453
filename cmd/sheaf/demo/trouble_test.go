package demo

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// impatient ends the demo when it has told of all robots that they wait for a reason.
type impatient struct {
	kept
	cancel context.CancelFunc
	reason string
}

func (i *impatient) Tell(e Event) {
	i.kept.Tell(e)
	i.mu.Lock()
	defer i.mu.Unlock()
	waiting := map[string]bool{}
	for _, e := range i.events {
		for _, robot := range robots {
			if e.Kind == "waiting" && strings.Contains(e.Text, robot) && strings.Contains(e.Text, i.reason) {
				waiting[robot] = true
			}
		}
	}
	if len(waiting) == len(robots) {
		i.cancel()
	}
}

// A demo on a disk that is too full says why nothing arrives.
func TestDiskTooFull(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for _, c := range []struct {
		name, disk string
		other      int // bytes that are taken already
		collects   bool
		reason     string
	}{
		{"for uploads", "size=1g", 256 << 20, true, "no room"}, // above the least uploads.full
		{"for collecting", "size=32m", 16 << 20, false, "must stay free"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.collects { // the whole demo
				testkit.Long(t)
			}
			dir := testkit.SmallDisk(t, c.disk)
			if dir == "" {
				return // ran in a user namespace
			}
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "other"), make([]byte, c.other), 0o600))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			to := &impatient{cancel: cancel, reason: c.reason}
			err := Run(ctx, Options{Once: true, Data: filepath.Join(dir, "demo"), Settings: map[string]any{"uploads.full": 20}}, to)
			if ctx.Err() == nil {
				t.Fatalf("it ended with %v, after %+v", err, to.events)
			}
		})
	}
}
