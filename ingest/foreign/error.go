package foreign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"sheaf/internal/display"
	"sheaf/internal/wire"
)

// Error says what is wrong with a foreign file, and where.
type Error struct {
	Offset int64       // in the inflated file
	Entry  string      // URL of the record, or name of the tar entry
	Reason wire.Reason // for the quarantine
	Msg    string
}

func (e *Error) Error() string {
	where := fmt.Sprintf("offset %d, inflated", e.Offset)
	if e.Entry != "" {
		where += fmt.Sprintf(" (%s)", display.Harmless(fmt.Sprintf("%.200s", e.Entry)))
	}
	return where + ": " + e.Msg
}

func wrong(offset int64, entry string, reason wire.Reason, format string, args ...any) *Error {
	return &Error{offset, entry, reason, fmt.Sprintf(format, args...)}
}

// reading turns a read error into an *Error if the file's content is at fault. It returns errors of
// the disk and of the context unchanged.
func (s *input) reading(err error, entry string) error {
	var known *Error
	var hole *gap
	var disk *fs.PathError
	switch {
	case s.disk != nil:
		return s.disk
	case err == nil:
		return nil
	case errors.As(err, &known), errors.As(err, &hole), errors.As(err, &disk), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return wrong(s.n, entry, wire.ReasonTruncated, "the file ends here, in the middle")
	}
	return wrong(s.n, entry, wire.ReasonCorruptMember, "%v", err)
}

// ended returns the error of the disk or the context, if any, or else err.
func (s *input) ended(err error) error {
	if s.disk != nil {
		return s.disk
	}
	return err
}

// whole returns err. But if err is a fault of the file, it first reads the rest. If the file turns
// out to be cut off, it returns that error instead, because the rest may still come.
func (s *input) whole(err error) error {
	var fault, cut *Error
	if !errors.As(err, &fault) || fault.Reason == wire.ReasonTruncated {
		return err
	}
	_, rerr := io.Copy(io.Discard, s)
	if rerr = s.reading(rerr, fault.Entry); s.disk != nil || errors.As(rerr, &cut) && cut.Reason == wire.ReasonTruncated {
		return rerr
	}
	return err
}
