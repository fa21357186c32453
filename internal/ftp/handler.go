package ftp

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"time"

	"sheaf/internal/stream"
)

// Handler decides who may log in. Its method may be called concurrently.
type Handler interface {
	// Login checks a user's password and returns the user's session. If name or password are wrong
	// it returns an *Error with code 530. If the user may not come now (outside the window, over a
	// quota) it returns one with code 421, and the connection is closed. The connection is also
	// closed after three logins that fail otherwise. The handler limits how often somebody may
	// guess, over one connection or many (passwords.Limiter).
	Login(ctx context.Context, user, password string, remote net.Addr) (Session, error)
}

// Session is what one logged-in client may see and do. Paths are absolute, with slashes, and
// without "." and "..". The methods are called one at a time. The context ends when the client
// goes.
//
// An *Error is sent to the client word for word. Any other error is logged, and the client is told
// "451 Local error", so that nothing from inside leaks.
type Session interface {
	// Stat describes the file or directory at path.
	Stat(ctx context.Context, path string) (Entry, error)
	// List yields the entries of a directory in the order in which the client shall see them.
	List(ctx context.Context, path string) iter.Seq2[Entry, error]
	// Open opens a file at offset. Stat has been called before: path is a file, and offset is not
	// beyond its end.
	Open(ctx context.Context, path string, offset int64) (File, error)
	// Create begins an upload at offset. 0 starts afresh, a higher offset resumes what an aborted
	// upload has kept, and Append continues at the end of it. Sessions that may not write return an
	// *Error with code 550, and sessions without room one with code 452.
	Create(ctx context.Context, path string, offset int64) (Upload, error)
	// Transferred is told of every RETR, STOR and APPE that was answered 150. If the client has not
	// acknowledged all of a download, it is called later, from another goroutine: when the client
	// has done so or will not do so any more. That may be after Close, but it is before Run
	// returns.
	Transferred(t Transfer)
	// Close ends the session when the connection is closed.
	Close() error
}

// Allocator is a Session that is told by ALLO how many bytes the next upload will have. An error,
// such as an *Error with code 452, refuses the upload.
type Allocator interface {
	Allocate(ctx context.Context, bytes int64) error
}

// Revocable is a Session that its handler may end at any time.
type Revocable interface {
	// Revoke is called once, after the login. The session calls hangUp, from any goroutine, when
	// the client may not stay: the client is told the error and disconnected, at once if it is idle
	// or else after its command. A transfer that should not finish must be ended by the session.
	Revoke(hangUp func(*Error))
}

// Watched is a Session that is told of transfers under way.
type Watched interface {
	// Begun is called when the data connection of a transfer has opened. moved returns how many
	// bytes have been moved so far, and may be called at any time. ended is called after
	// Transferred.
	Begun(t Transfer, moved func() int64) (ended func())
}

// Transfer is one RETR, STOR or APPE.
type Transfer struct {
	Direction Direction
	Path      string
	Bytes     int64
	Took      time.Duration
	Err       error // nil: it is complete

	// Acknowledged says that Bytes and Took are of the bytes that the client has acknowledged.
	// Otherwise they are of the bytes that were written to the system or read.
	Acknowledged bool
}

// Append is the offset that Create gets for APPE.
const Append = -1

// Direction is the direction of a transfer.
type Direction string

// The directions.
const (
	Downloaded Direction = "download"
	Uploaded   Direction = "upload"
)

// File is an open file, read from the offset at which it was opened. It may also be Local, Paced
// and Sized.
type File = io.ReadCloser

// Local is a File that consists of parts of local files. Over an unencrypted data connection they
// are sent by sendfile(2).
type Local interface {
	// Extents returns what Read would return, or nil if that is not in local files. It is called at
	// most once, and then Read is not. The Reader is closed before the File.
	Extents() (stream.Reader, error)
}

// Paced is a Local File that limits its rate. Its Read waits by itself; who sends its extents must
// call Pace.
type Paced interface {
	// Pace waits until some of the next n bytes may be sent, and returns how many: at least one.
	// The time that it waits does not count for the data timeout.
	Pace(ctx context.Context, n int64) (int64, error)
}

// Sized is a File that knows how many bytes are left to read. If a transfer ends earlier, the
// client is told that it has failed.
type Sized interface{ Remaining() int64 }

// Upload receives the bytes of one STOR or APPE. Then either Commit or Abort is called, once.
type Upload interface {
	io.Writer
	// Commit makes the upload durable and complete. If it returns nil the client is told 226. It is
	// called only after a clean end of the data, with the control connection still there.
	Commit() error
	// Abort ends an incomplete upload. What was written may be kept for a resume, but must never be
	// shown as complete.
	Abort(cause error)
}

// SelfProving is an Upload whose content proves that it is complete, in Commit or later. After a
// clean end of the data the server does not wait to see whether the client was killed, which would
// cost each upload a moment.
type SelfProving interface{ SelfProving() }

// Entry describes a file or directory.
type Entry struct {
	Name     string // last element of the path; ignored from Stat
	Dir      bool
	Size     int64     // bytes, of files
	Modified time.Time // zero: unknown
	Writable bool      // may be stored to, or if it is a directory into
	Unique   string    // MLSD's "unique" fact: equal only for the same content; "": unknown
	SHA256   string    // lower-case hexadecimal, if it is stored; it is not computed for a client
}

// Error is a reply to the client: an FTP reply code and its text.
type Error struct {
	Code int // 400 to 599
	Msg  string
}

func (e *Error) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Msg) }
