package demo

import (
	"context"
	"strings"
	"testing"

	"sheaf/ingest/space"
	"sheaf/internal/testkit"
)

// impatient ends the demo when it has told of all robots that they wait.
type impatient struct {
	kept
	cancel context.CancelFunc
}

func (i *impatient) Tell(e Event) {
	i.kept.Tell(e)
	i.mu.Lock()
	defer i.mu.Unlock()
	waiting := map[string]bool{}
	for _, e := range i.events {
		for _, robot := range robots {
			if e.Kind == "waiting" && strings.Contains(e.Text, robot) && strings.Contains(e.Text, "no room") {
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
	dir := t.TempDir()
	room, err := space.RoomOn(dir)
	if err != nil {
		t.Fatal(err)
	}
	if room.Free > room.Bytes/100*98 {
		t.Skipf("the disk of %s is too empty to be too full", dir)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	to := &impatient{cancel: cancel}
	err = Run(ctx, Options{Once: true, Data: dir, Settings: map[string]any{"uploads.full": 1, "uploads.drained": 1}}, to)
	if ctx.Err() == nil {
		t.Fatalf("it ended with %v, after %+v", err, to.events)
	}
}
