package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"sheaf/internal/lease"
	"sheaf/internal/testkit"
)

// judge is the resource that a lease guards. It accepts writes in the order of tokens, and records
// the turns.
type judge struct {
	t      *testing.T
	random *rand.Rand
	mu     sync.Mutex // guards what follows

	highest int64
	holder  string
	turns   []turn
}

// turn is one holder's time, from its first accepted write.
type turn struct {
	who   string
	token int64
}

var errRefused = errors.New("refused: a later holder has written")

// write writes to the guarded resource.
func (j *judge) write(who string, token int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case token < j.highest:
		return fmt.Errorf("token %d after %d: %w", token, j.highest, errRefused)
	case token > j.highest:
		j.highest, j.holder = token, who
		j.turns = append(j.turns, turn{who, token})
	case who != j.holder:
		j.t.Errorf("%s and %s are both accepted with token %d", j.holder, who, token)
	}
	return nil
}

// count returns the number of turns.
func (j *judge) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.turns)
}

// starved returns the largest number of others' turns between two turns of one client.
func (j *judge) starved() (most int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	last := make(map[string]int)
	for n, t := range j.turns {
		if before, ok := last[t.who]; ok {
			most = max(most, n-before-1)
		}
		last[t.who] = n
	}
	return most
}

// contend takes turns until ctx ends or, if turns is not 0, until it has had that many. A write
// that is refused although the lease is valid reveals a second holder.
func (j *judge) contend(ctx context.Context, who string, l lease.Locker, turns int) {
	for n := 0; ctx.Err() == nil && (turns == 0 || n < turns); n++ {
		err := l.Do(ctx, "publish", func(ctx context.Context, token int64) error {
			for range 3 {
				err := j.write(who, token)
				if err != nil && ctx.Err() == nil {
					j.t.Errorf("%s: %v, with a lease that it may be sure of", who, err)
				}
				if err != nil {
					return err
				}
				testkit.Moment(j.random, 4*time.Millisecond) // in which nobody else may write
			}
			return nil
		})
		if err != nil && ctx.Err() == nil && !errors.Is(err, lease.ErrLost) {
			j.t.Errorf("%s: %v", who, err)
		}
	}
}
