package archive

import (
	"errors"
	"fmt"
	"strings"

	"sheaf/internal/display"
	"sheaf/internal/wire"
)

// FormatError says where stored bytes violate the format, and how.
type FormatError struct {
	Offset int64       // of the wrong member or byte, from the start of the input
	Cell   int         // the cell's number, from 0; -1 outside of cells
	Entry  string      // the tar entry's name or the record's URL, where known
	Code   wire.Reason // the reason that the quarantine shows
	Excess bool        // only a length is wrong: a body is too long, or breaks the rule of expansion
	Msg    string
	Err    error // the cause, such as an error of reading; may be nil
}

func (e *FormatError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "offset %d", e.Offset)
	if e.Cell >= 0 {
		fmt.Fprintf(&b, ", cell %d", e.Cell)
	}
	if e.Entry != "" {
		fmt.Fprintf(&b, " (%s)", display.Harmless(e.Entry))
	}
	fmt.Fprintf(&b, ": %s", e.Msg)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String() + " [" + string(e.Code) + "]"
}

func (e *FormatError) Unwrap() error { return e.Err }

// The codes of this package's FormatErrors.
const (
	codeSHA        = wire.ReasonSHAMismatch
	codeTruncated  = wire.ReasonTruncated
	codeCorrupt    = wire.ReasonCorruptMember
	codePathEscape = wire.ReasonPathEscape
	codeLinkEntry  = wire.ReasonLinkEntry
	codeBombRatio  = wire.ReasonBombRatio
)

func corrupt(format string, args ...any) *FormatError {
	return &FormatError{Code: codeCorrupt, Cell: -1, Msg: fmt.Sprintf(format, args...)}
}

// ErrRefused says that a segment cannot hold a record, for example because the record's URL is
// invalid or of another host. The next record can still be appended.
var ErrRefused = errors.New("record refused")
