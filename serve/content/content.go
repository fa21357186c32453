// Package content describes the files that consumers get, and where their bytes come from: stored
// ranges, joined parts, texts that are written when they are read, and temporary files.
//
// Nothing here knows the tree or an archive. The packages above compute an Entry, and Open makes a
// File of it for an account.
package content

import (
	"context"
	"errors"
	"io"
	"time"

	"sheaf/internal/extent"
)

// Errors about paths. They wrap nothing that an account may not know.
var (
	ErrNotFound    = errors.New("no such file or directory") // for this account
	ErrIsDirectory = errors.New("is a directory")
)

// IsNotFound reports whether an error says that there is nothing for this account.
func IsNotFound(err error) bool { return errors.Is(err, ErrNotFound) }

// Node describes a file or directory.
type Node struct {
	Name     string // last element of its path; "/" for the root
	Dir      bool
	Size     int64     // bytes; files only
	Modified time.Time // UTC, whole seconds: the same by every protocol
	ETag     string    // strong, quoted; files only
	SHA256   string    // lower-case hexadecimal; "" if it is not known
	Type     string    // media type; files only
	Fixed    bool      // later editions do not change its bytes; only a take-down does
}

// Entry is a file or directory that was found.
type Entry struct {
	Node
	Always bool                                  // may be read while the account's window is closed
	Open   func(context.Context) (Ranges, error) // files only
	List   List                                  // directories only
}

// List calls emit with everything that a directory lists. It ends with emit's first error.
type List func(ctx context.Context, emit func(Node) error) error

// Directory returns the entry of a directory.
func Directory(name string, modified time.Time, list List) *Entry {
	return &Entry{Node: DirectoryNode(name, modified), List: list}
}

// DirectoryNode describes a directory.
func DirectoryNode(name string, modified time.Time) Node {
	return Node{Name: name, Dir: true, Modified: Seconds(modified)}
}

// Seconds returns a time as every protocol can show it.
func Seconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// Ranges is where a file's bytes come from. Any number of readers may be open at once.
type Ranges interface {
	OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error)
}

// Extents are Ranges whose bytes may lie in local files.
type Extents interface {
	Ranges
	// Extents returns n bytes from off on. It returns nil if they do not lie in local files.
	Extents(off, n int64) (extent.Reader, error)
}
