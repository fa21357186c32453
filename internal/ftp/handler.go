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
	// Login checks a user's password and returns the user's session. If the name or the password is
	// wrong, it returns an *Error with code 530. If the user may not log in now (outside the
	// window, over a quota), it returns an *Error with code 421, and the server closes the
	// connection. The server also closes it after three logins that fail otherwise. The handler
	// limits how often somebody may guess, over one connection or many (passwords.Limiter).
	Login(ctx context.Context, user, password string, remote net.Addr) (Session, error)
}

// Session serves one logged-in client. Paths are absolute, with slashes, and without "." and "..".
// The server calls one method at a time. The context ends when the client has gone.
//
// An *Error is sent to the client word for word. Any other error is logged, and the client is told
// "451 Local error", so that nothing from inside leaks.
type Session interface {
	// Stat describes the file or directory at path.
	Stat(ctx context.Context, path string) (Entry, error)
	// List yields the entries of a directory in the order of the listing.
	List(ctx context.Context, path string) iter.Seq2[Entry, error]
	// Open opens a file at offset. Stat has shown before that path is a file and offset is not
	// beyond its end.
	Open(ctx context.Context, path string, offset int64) (File, error)
	// Create begins an upload at offset: 0 starts afresh, a higher offset resumes an aborted
	// upload, and Append continues at an upload's end. It returns an *Error with code 550 if the
	// session may not write, and with code 452 if there is no room.
	Create(ctx context.Context, path string, offset int64) (Upload, error)
	// Transferred is called after every RETR, STOR and APPE that was answered 150. If the client
	// has not acknowledged all of a download, it is called later, from another goroutine: when the
	// client has acknowledged all, or will not any more. That may be after Close, but it is before
	// Run returns.
	Transferred(t Transfer)
	// Close ends the session when the connection is closed.
	Close() error
}

// Allocator is a Session that learns from ALLO how many bytes the next upload will have. If
// Allocate returns an error, such as an *Error with code 452, the server answers ALLO with that
// error.
type Allocator interface {
	Allocate(ctx context.Context, bytes int64) error
}

// Revocable is a Session that its handler may end at any time.
type Revocable interface {
	// Revoke is called once, after the login. The session calls hangUp, from any goroutine, when
	// the client may not stay: the server sends the client the error and disconnects it, at once if
	// the client is idle, otherwise after its command. If a running transfer must not finish, the
	// session ends it.
	Revoke(hangUp func(*Error))
}

// Watched is a Session that follows transfers under way.
type Watched interface {
	// Begun is called when the data connection of a transfer has opened. moved returns how many
	// bytes have been moved so far; the session may call it at any time. The server calls ended
	// after Transferred.
	Begun(t Transfer, moved func() int64) (ended func())
}

// Transfer is one RETR, STOR or APPE.
type Transfer struct {
	Direction Direction
	Path      string
	Bytes     int64
	Took      time.Duration
	Err       error // nil: the transfer is complete

	// Acknowledged says that Bytes and Took count the bytes that the client has acknowledged.
	// Otherwise they count the bytes that the server has read or written.
	Acknowledged bool
}

// Append is the offset that Session.Create gets for APPE.
const Append = -1

// Direction says whether the client receives or sends the file.
type Direction string

// The directions, as the client sees them.
const (
	Downloaded Direction = "download"
	Uploaded   Direction = "upload"
)

// File is an open file, read from the offset at which it was opened. It may also be Local, Paced
// and Sized.
type File = io.ReadCloser

// Local is a File that consists of parts of local files. Over an unencrypted data connection the
// server sends the parts by sendfile(2).
type Local interface {
	// Extents returns the bytes of Read as extents, or nil if they are not in local files. It is
	// called at most once, and Read is not called after it. The Reader is closed before the File.
	Extents() (stream.Reader, error)
}

// Paced is a Local File that limits its rate. Its Read waits by itself; a sender of its extents
// must call Pace.
type Paced interface {
	// Pace waits until some of the next n bytes may be sent, and returns how many: at least one. If
	// n is 0, it only checks that sending may go on, at once. The time that it waits does not count
	// for the data timeout.
	Pace(ctx context.Context, n int64) (int64, error)
}

// Sized is a File that knows how many bytes are left to read. If a transfer ends earlier, the
// client is told that it has failed.
type Sized interface{ Remaining() int64 }

// Upload receives the bytes of one STOR or APPE. Then the server calls either Commit or Abort,
// once.
type Upload interface {
	io.Writer
	// Commit makes the upload durable and complete. If it returns nil, the server replies 226. It
	// is called only if the data ended cleanly and the control connection is still open.
	Commit() error
	// Abort ends an incomplete upload. It may keep the written bytes for a resume, but must never
	// show them as complete.
	Abort(cause error)
}

// SelfProving is an Upload whose content proves that it is complete, in Commit or later. For other
// uploads the server waits for a moment after the data, to see whether the client was killed.
type SelfProving interface{ SelfProving() }

// Entry describes a file or directory.
type Entry struct {
	Name     string // last element of the path; ignored from Stat
	Dir      bool
	Size     int64     // bytes, of files
	Modified time.Time // zero: unknown
	Writable bool      // may be written; for a directory, may get new files
	Unique   string    // MLSD's "unique" fact: equal only for the same content; "": unknown
	SHA256   string    // lower-case hexadecimal; empty if it is not stored, since it is not computed for a client
}

// Error is a reply to the client: an FTP reply code and its text.
type Error struct {
	Code int // 400 to 599
	Msg  string
}

func (e *Error) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Msg) }
