package catalog

import (
	"context"
	"fmt"
	"time"
)

// Checkpoint is the version in which a sequence number was assigned. Each version holds the digest
// of the version before. So two logs with the same checkpoint for a number are equal up to that
// version.
type Checkpoint struct {
	Version int64
	At      time.Time
	Digest  string // SHA-256 of the version's record; empty for number 0
}

// Last returns the highest sequence number of the version, or 0.
func (s *Snapshot) Last() int64 { return s.state.NextSeq - 1 }

// Checkpoint returns the checkpoint of a sequence number; for 0, the zero value. It returns
// ErrFuture if the number does not exist yet.
func (s *Snapshot) Checkpoint(ctx context.Context, seq int64) (Checkpoint, error) {
	switch {
	case seq < 0 || seq > s.Last():
		return Checkpoint{}, fmt.Errorf("catalog: checkpoint of %d: the last is %d: %w", seq, s.Last(), ErrFuture)
	case seq == 0:
		return Checkpoint{}, nil
	}
	n, err := s.versionAfter(ctx, seq-1)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("catalog: checkpoint of %d: %w", seq, err)
	}
	e, err := s.catalog.log.read(ctx, n)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("catalog: checkpoint of %d: %w", seq, err)
	}
	return Checkpoint{Version: e.N, At: e.At, Digest: e.digest}, nil
}

// Withdrawals counts all take-downs, lifts, erasures and expiries up to the version. These events
// are never removed. So if two versions have the same count, nothing was withdrawn or came back
// between them.
func (s *Snapshot) Withdrawals() int64 {
	n := int64(0)
	for _, r := range s.state.Runs {
		n += r.Tombstones + r.Expired
	}
	return n
}
