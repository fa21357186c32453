package foreign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"sheaf/internal/terminal"
	"sheaf/internal/wire"
)

// Error is what is wrong with a foreign file, and where.
type Error struct {
	Offset int64       // in the file once it is inflated
	Entry  string      // the record's URL, or the tar entry's name
	Reason wire.Reason // as a quarantine states it
	Msg    string
}

func (e *Error) Error() string {
	where := fmt.Sprintf("offset %d, inflated", e.Offset)
	if e.Entry != "" {
		where += fmt.Sprintf(" (%s)", terminal.Text(fmt.Sprintf("%.200s", e.Entry)))
	}
	return where + ": " + e.Msg
}

func wrong(offset int64, entry string, reason wire.Reason, format string, args ...any) *Error {
	return &Error{offset, entry, reason, fmt.Sprintf(format, args...)}
}

// reading tells an error of the file's bytes from one of the disk or the context's, which are
// returned as they are.
func (s *stream) reading(err error, entry string) error {
	var known *Error
	var disk *fs.PathError
	switch {
	case s.disk != nil:
		return s.disk
	case err == nil:
		return nil
	case errors.As(err, &known), errors.As(err, &disk), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return wrong(s.n, entry, wire.ReasonTruncated, "the file ends here, in the middle")
	}
	return wrong(s.n, entry, wire.ReasonCorruptMember, "%v", err)
}

// whole returns the fault of a file that is read to its end, or that it is cut off: then the fault may
// be of what is still to come, and sending goes before judging.
func (s *stream) whole(fault *Error) error {
	_, err := io.Copy(io.Discard, s)
	var cut *Error
	if err = s.reading(err, fault.Entry); s.disk != nil || errors.As(err, &cut) && cut.Reason == wire.ReasonTruncated {
		return err
	}
	return fault
}
