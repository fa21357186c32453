package roster

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base32"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"sheaf/internal/servicekey"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
)

var (
	// ErrUnauthorized says that a robot's name and secret do not belong together.
	ErrUnauthorized = wire.ErrUnauthorized
	// ErrUnknownRobot says that no robot of that name has joined, or that it was revoked.
	ErrUnknownRobot = errors.New("no such robot has joined")
	// ErrNoRobot says that no robot of that name was ever admitted.
	ErrNoRobot = errors.New("no robot of this name was admitted; sheaf robot ls lists them")
	// ErrActive says that a robot cannot be forgotten because it has credentials.
	ErrActive = errors.New("it has joined; sheaf robot revoke takes its credentials away and hands its hosts on, and then it can be removed")
	// ErrToken says that a one-time token is unknown, used or expired.
	ErrToken = errors.New("the token is unknown, used or expired; ask the operator for a new one")
	// ErrRobotExists says that a robot of that name has joined and was not revoked, or that it was
	// revoked together with its published pages.
	ErrRobotExists = errors.New("a robot of this name has joined, or was revoked with what it had published; revoke it before you admit its name anew, or choose another name")
	// ErrRobotName says that a name cannot be a robot's.
	ErrRobotName = errors.New("a robot's name is a DNS label: 1 to 63 lower-case letters, digits and hyphens; not join or import")
)

// Options are a roster's settings. Key and Releases must be set.
type Options struct {
	Key       servicekey.Signer // the service's key; robots get its public half when they join
	FTP       string            // host:port of the FTP drop, which robots are told; empty: there is none
	TokenLife time.Duration     // life of a one-time token; 0: a week
	Releases  *Releases         // of the robots' program
	Log       *slog.Logger      // nil: discards
}

// Roster keeps the robots in the control database. It may be used by many goroutines at once. A
// change is durable when its method returns.
type Roster struct {
	db          *sql.DB
	assignments *assign.Assignments
	opt         Options

	mu        sync.Mutex // guards listening
	listening listening
}

// New returns the robots in d, which internal/db has opened.
func New(d *sql.DB, assignments *assign.Assignments, opt Options) *Roster {
	opt.TokenLife = cmp.Or(opt.TokenLife, 7*24*time.Hour)
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	return &Roster{db: d, assignments: assignments, opt: opt}
}

// newSecret returns 256 random bits in lower-case base32. Base32 fits HTTP Basic and a command
// line, where a leading hyphen would look like a flag.
func newSecret() string {
	b := make([]byte, 32)
	rand.Read(b) // never fails: crypto/rand ends the program instead
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

func hash(s string) []byte {
	h := sha256.Sum256([]byte(s))
	return h[:]
}
