package upload

import (
	"errors"
	"fmt"
	"time"

	"sheaf/internal/wire"
)

// ErrUnknown says that the service does not have a batch.
var ErrUnknown = errors.New("the service does not have the batch")

// LaterError says when the service wants to be asked again.
type LaterError struct {
	After time.Duration
	Err   error
}

func (e *LaterError) Error() string { return fmt.Sprintf("%v; again in %v", e.Err, e.After) }
func (e *LaterError) Unwrap() error { return e.Err }

// DownError says that a target cannot be used now, whichever the batch: it
// cannot be reached, takes nobody in, or not this robot.
type DownError struct{ Err error }

func (e *DownError) Error() string { return e.Err.Error() }
func (e *DownError) Unwrap() error { return e.Err }

// RefusedError says that the service will not have a batch, in an answer that
// nobody has signed: the receipt must tell. Of a batch that is too large for the
// service there is none.
type RefusedError struct {
	Reason wire.Reason
	Err    error
}

func (e *RefusedError) Error() string { return e.Err.Error() }
func (e *RefusedError) Unwrap() error { return e.Err }

// refusal tells whether an answer's reason is one for which a service refuses a
// batch at once; the others come later, with the receipt.
func refusal(reason string) (wire.Reason, bool) {
	switch r := wire.Reason(reason); r {
	case wire.ReasonIDReuse, wire.ReasonBadSignature, wire.ReasonTooLarge:
		return r, true
	}
	return "", false
}
