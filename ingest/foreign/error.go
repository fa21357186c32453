package foreign

import (
	"errors"
	"fmt"
	"io"

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
		where += fmt.Sprintf(" (%.200s)", e.Entry)
	}
	return where + ": " + e.Msg
}

func wrong(offset int64, entry string, reason wire.Reason, format string, args ...any) *Error {
	return &Error{offset, entry, reason, fmt.Sprintf(format, args...)}
}

// reading tells an error of the file's bytes from one of the disk, which is returned as it is.
func (s *stream) reading(err error, entry string) error {
	var known *Error
	switch {
	case s.disk != nil:
		return s.disk
	case errors.As(err, &known):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return wrong(s.n, entry, wire.ReasonTruncated, "the file ends here, in the middle")
	}
	return wrong(s.n, entry, wire.ReasonCorruptMember, "%v", err)
}
