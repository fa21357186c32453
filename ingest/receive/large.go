package receive

import (
	"context"
	"errors"
	"sync"

	"sheaf/ingest/inbox"
)

// A manifest of more than largeManifest bytes is read and checked only while its robot sends no
// other large manifest, and at most largeAtOnce are read at once. So manifests take bounded memory,
// and one robot cannot block the others.
const (
	largeManifest = 1 << 20
	largeAtOnce   = 2
)

// errBusy says that the robot is sending another large manifest at the same time.
var errBusy = errors.New("another large manifest of this robot is being read; send one after the other")

// turnedAway returns err, but *inbox.Full for the error of a full disk. If there is no room or no
// turn for the robot now, it calls Options.Refused.
func (r *Receiver) turnedAway(ctx context.Context, robot string, err error) error {
	err = r.uploads.guard.NoSpace(err)
	if _, ok := errors.AsType[*inbox.Full](err); ok || errors.Is(err, errBusy) {
		r.opt.Refused(ctx, robot, err.Error())
	}
	return err
}

// largeOnes are the large manifests under way.
type largeOnes struct {
	places chan struct{} // has an element for each

	mu     sync.Mutex      // guards robots
	robots map[string]bool // robots that send one, or wait for a place
}

func newLargeOnes() *largeOnes {
	return &largeOnes{places: make(chan struct{}, largeAtOnce), robots: make(map[string]bool)}
}

// enter waits for a place. The caller must call leave after reading its manifest. enter returns
// errBusy if the robot has another manifest under way.
func (l *largeOnes) enter(ctx context.Context, robot string) (leave func(), err error) {
	l.mu.Lock()
	busy := l.robots[robot]
	l.robots[robot] = true
	l.mu.Unlock()
	if busy {
		return nil, errBusy
	}
	gone := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.robots, robot)
	}
	select {
	case l.places <- struct{}{}:
	case <-ctx.Done():
		gone()
		return nil, ctx.Err()
	}
	return func() { <-l.places; gone() }, nil
}
