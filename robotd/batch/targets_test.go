package batch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/wire"
)

// ways is one of several targets of world's service.
type ways struct {
	*world
	name  string
	err   func() error // nil: it works
	tries []time.Time
}

func (w *ways) Name() string { return w.name }

func (w *ways) Send(_ context.Context, b Spooled) error {
	w.tries = append(w.tries, time.Now())
	if err := w.err(); err != nil {
		return err
	}
	w.have[b.ID] = true
	return nil
}

// many is a spool with several batches, and their receipts.
type many struct {
	*world
	left []Spooled
}

func (m *many) Spool() ([]Spooled, error) { return m.left, nil }
func (m *many) Remove(id wire.BatchID) error {
	var left []Spooled
	for _, b := range m.left {
		if b.ID != id {
			left = append(left, b)
		}
	}
	m.left = left
	return nil
}

func (m *many) Receipt(_ context.Context, id wire.BatchID, sha256 string) (*wire.Receipt, error) {
	if !m.have[id] {
		return nil, ErrUnknown
	}
	return &wire.Receipt{Batch: id, SHA256: sha256, State: wire.StatePublished}, nil
}

// TestDeadTargetStarvesNoOther: a dead target is tried once for each of its waits, not once for
// every batch, and the other targets get everything at once.
func TestDeadTargetStarvesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{have: make(map[wire.BatchID]bool)}
		alive := false
		dead := &ways{world: w, name: "dead", err: func() error {
			if alive {
				return nil
			}
			time.Sleep(30 * time.Second) // a connection that nobody answers
			return &DownError{errors.New("no route")}
		}}
		good := &ways{world: w, name: "good", err: func() error { return nil }}
		m := &many{world: w}
		fill := func() {
			for n := range 20 {
				m.left = append(m.left, Spooled{ID: wire.BatchID(fmt.Sprintf("r1-20261121T030000Z-%d", len(w.have)+n)), SHA256: "aa"})
			}
		}
		u := NewUploader(UploaderOptions{Spool: m, Targets: []Target{dead, good}, Receipts: m, BackOff: time.Minute})
		start := time.Now()
		fill()
		if err := u.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(dead.tries) != 1 || len(good.tries) != 20 || time.Since(start) > 31*time.Second {
			t.Errorf("%d tries of the dead target, %d of the other, in %v", len(dead.tries), len(good.tries), time.Since(start))
		}
		alive = true
		time.Sleep(2 * time.Minute)
		fill()
		if err := u.Drain(t.Context()); err != nil || len(dead.tries) != 21 {
			t.Errorf("back again it was tried %d times, %v", len(dead.tries)-1, err)
		}
	})
}

// TestOneBatchAtOneTarget: a batch that one target refuses goes to the next one, and the first
// target still gets the other batches.
func TestOneBatchAtOneTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{have: make(map[wire.BatchID]bool)}
		first := &ways{world: w, name: "first"}
		first.err = func() error {
			if len(first.tries) == 1 {
				return &LaterError{After: time.Hour, Err: errors.New("507, too large for now")}
			}
			return nil
		}
		second := &ways{world: w, name: "second", err: func() error { return nil }}
		m := &many{world: w, left: []Spooled{{ID: "r1-20261121T030000Z-1", SHA256: "aa"}, {ID: "r1-20261121T030000Z-2", SHA256: "aa"}}}
		start := time.Now()
		u := NewUploader(UploaderOptions{Spool: m, Targets: []Target{first, second}, Receipts: m})
		if err := u.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(first.tries) != 2 || len(second.tries) != 1 || time.Since(start) > time.Second {
			t.Errorf("%d and %d tries in %v", len(first.tries), len(second.tries), time.Since(start))
		}
	})
}
