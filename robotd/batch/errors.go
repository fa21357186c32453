package batch

import (
	"errors"
	"fmt"
	"time"

	"sheaf/internal/wire"
)

// ErrUnknown says that the service does not have a batch.
var ErrUnknown = errors.New("the service does not have the batch")

// LaterError says how long the service wants the robot to wait.
type LaterError struct {
	After time.Duration
	Err   error
}

func (e *LaterError) Error() string { return fmt.Sprintf("%v; again in %v", e.Err, e.After) }
func (e *LaterError) Unwrap() error { return e.Err }

// DownError says that a target cannot be used now, for any batch: it cannot be reached, or refuses
// all robots or this one.
type DownError struct{ Err error }

func (e *DownError) Error() string { return e.Err.Error() }
func (e *DownError) Unwrap() error { return e.Err }

// RefusedError says that the service refuses a batch, in an answer without a signature. The receipt
// decides; only a batch that is too large gets no receipt.
type RefusedError struct {
	Reason wire.Reason
	Err    error
}

func (e *RefusedError) Error() string { return e.Err.Error() }
func (e *RefusedError) Unwrap() error { return e.Err }

// refusal returns an answer's reason if a service refuses a batch at once for it, and otherwise
// false: the other reasons only come with the receipt.
func refusal(reason string) (wire.Reason, bool) {
	switch r := wire.Reason(reason); r {
	case wire.ReasonIDReuse, wire.ReasonBadSignature, wire.ReasonTooLarge:
		return r, true
	}
	return "", false
}
