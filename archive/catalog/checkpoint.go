package catalog

import (
	"context"
	"fmt"
	"time"
)

// Checkpoint says where in the log a sequence number was given. Each entry of the log
// holds the digest of the one before, so two logs that give the same checkpoint for a
// number are the same log up to there.
type Checkpoint struct {
	Version int64
	At      time.Time
	Digest  string // of the version's record; empty for number 0
}

// Last gives the highest sequence number that the version has; 0 where it has none.
func (s *Snapshot) Last() int64 { return s.state.NextSeq - 1 }

// Checkpoint gives the checkpoint of a sequence number; that of 0 is the log's beginning. It
// fails with ErrFuture where the number has not been given.
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

// Withdrawals counts what the version has of take-downs, what became of them, and
// expiries. None is ever removed, so between two versions of which it is the same
// nothing that was there has gone or come back.
func (s *Snapshot) Withdrawals() int64 {
	n := int64(0)
	for _, r := range s.state.Runs {
		n += r.Tombstones + r.Expired
	}
	return n
}
