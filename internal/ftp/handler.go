package ftp

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"time"

	"sheaf/internal/extent"
)

// Handler decides who may log in. One Handler serves all connections of a
// server; its method may be called from many goroutines at once.
type Handler interface {
	// Login checks a user's password and opens what that user may see.
	// A wrong name or password is an *Error with code 530; a user who may not
	// come now (outside the window, over a quota) gets one with code 421 and
	// the connection is closed. After three that fail with a 5xx or with an error of
	// another type it is closed too. How often somebody may guess, from one
	// connection or many, is the handler's to bound (package guesses).
	Login(ctx context.Context, user, password string, remote net.Addr) (Session, error)
}

// Session is what one logged-in connection sees: a tree of slash-separated
// absolute paths, already cleaned of "." and "..". Its methods are called one
// at a time, except that the context may be cancelled at any moment.
//
// Errors of type *Error reach the client word for word. All others are logged
// and become "451 Local error", so that nothing of the inside leaks.
type Session interface {
	// Stat describes the file or directory at path.
	Stat(ctx context.Context, path string) (Entry, error)
	// List yields the entries of a directory, in the order in which the client
	// shall see them. The engine holds one entry at a time.
	List(ctx context.Context, path string) iter.Seq2[Entry, error]
	// Open gives the bytes of a file from offset on. The engine has called Stat
	// before: path is a file and offset does not lie beyond its end.
	Open(ctx context.Context, path string, offset int64) (File, error)
	// Create begins an upload at offset: 0 starts afresh, more resumes what an
	// aborted upload has kept, Append goes on at the end of it. Sessions that
	// may not write return an *Error with code 550; one without room, 452.
	Create(ctx context.Context, path string, offset int64) (Upload, error)
	// Transferred is told of every RETR, STOR and APPE that got as far as 150. A download
	// that the client has been told 226 of may still be on its way: then Transferred is called
	// later, from a goroutine of its own, once its last byte is acknowledged or never will be.
	// That may be after Close, and before Run returns.
	Transferred(t Transfer)
	// Close ends the session; the connection is gone.
	Close() error
}

// Allocator is a Session that is told of ALLO: how many bytes the next upload
// will have. An error, such as an *Error with code 452, refuses it.
type Allocator interface {
	Allocate(ctx context.Context, bytes int64) error
}

// Revocable is a Session that its handler may end at any time.
type Revocable interface {
	// Revoke is called once, after the login. The session calls hangUp, from any
	// goroutine, when the client may stay no longer: an idle one is told the
	// error and disconnected, another after its command. Transfers that should
	// not finish are the session's own to fail.
	Revoke(hangUp func(*Error))
}

// Watched is a Session that is told of transfers that are under way.
type Watched interface {
	// Begun is told of a transfer whose data connection has opened, of which nothing has been
	// moved yet. Moved returns how many bytes have been, and may be called at any time; ended is
	// called after Transferred.
	Begun(t Transfer, moved func() int64) (ended func())
}

// Transfer is one RETR, STOR or APPE, whole or broken off.
type Transfer struct {
	Direction Direction
	Path      string
	Bytes     int64
	Took      time.Duration
	Err       error // nil: it is whole

	// Acknowledged says that Bytes and Took are by what the client has acknowledged. Otherwise
	// they are by what the engine wrote to the system or read.
	Acknowledged bool
}

// Append is the offset that Create gets for APPE.
const Append = -1

// Direction tells downloads from uploads.
type Direction string

// The two directions, as the log of transfers writes them.
const (
	Downloaded Direction = "download"
	Uploaded   Direction = "upload"
)

// File is an open file, read from the offset that Open was given.
// It may also be a Local or a Sized.
type File = io.ReadCloser

// Local is a File that is put together of stretches of local files. On an unencrypted
// data channel they leave by sendfile(2) and are never read through the process.
type Local interface {
	// Extents gives what Read would give; nil where that does not lie in local
	// files. It is called at most once, instead of Read, and closed before the File is.
	Extents() (extent.Reader, error)
}

// Paced is a File that says when its bytes may be moved. A File that is Local is
// asked before each piece that the kernel sends; in Read it asks itself.
type Paced interface {
	// Pace waits until some of the next n bytes may go, and returns how many: at
	// least one. The wait does not count as one in which no data moved.
	Pace(ctx context.Context, n int64) (int64, error)
}

// Sized is a File that knows how many bytes are left to read; a transfer that
// ends before them is reported to the client as failed.
type Sized interface{ Remaining() int64 }

// Upload takes the bytes of one STOR or APPE. Exactly one of Commit and Abort
// is called, once, and nothing after it.
type Upload interface {
	io.Writer
	// Commit makes the upload durable and complete: when it returns nil the
	// client is told 226. It is only called after a clean end of the data, with
	// the control connection still there.
	Commit() error
	// Abort ends an upload that did not complete, because of cause. What was
	// written may be kept for a later resume, never shown as complete.
	Abort(cause error)
}

// SelfProving is an Upload whose content proves that it is whole, later or in
// Commit. The engine then takes a clean end of the data for one, and does not wait to see
// whether the client was killed, which costs each upload a moment.
type SelfProving interface{ SelfProving() }

// Entry describes a file or directory.
type Entry struct {
	Name     string // last element of the path; ignored from Stat
	Dir      bool
	Size     int64     // bytes, of files
	Modified time.Time // zero where unknown
	Writable bool      // may be stored to (a directory: into), for listings
	Unique   string    // MLSD's "unique" fact: equal only for the same content; "" where unknown
	SHA256   string    // lower-case hex, where it is stored; never computed in line
}

// Error is an answer to the client: an FTP reply code and its text.
type Error struct {
	Code int // 400 to 599
	Msg  string
}

func (e *Error) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Msg) }
