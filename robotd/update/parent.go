package update

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

// How the supervisor and its child know of each other: in the child's environment.
const (
	pipeVariable    = "SHEAF_SUPERVISOR" // number of the descriptor to say "reported in" on
	counterVariable = "SHEAF_RELEASE"    // counter of the child's release; 0: none
)

// reported is what the child says when it has reported in.
const reported = "REPORTED\n"

// Parent is what a child knows of its supervisor.
type Parent struct {
	Counter int64 // of the release that the child is

	pipe io.WriteCloser // nil: there is no supervisor, or it was told already
	on   bool
}

// FindParent looks for the supervisor of this process.
func FindParent() (Parent, error) {
	text := os.Getenv(pipeVariable)
	if text == "" {
		return Parent{}, nil
	}
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 3 {
		return Parent{}, fmt.Errorf("%s=%q names no descriptor", pipeVariable, text)
	}
	counter, err := strconv.ParseInt(os.Getenv(counterVariable), 10, 64)
	if err != nil {
		return Parent{}, fmt.Errorf("%s: %w", counterVariable, err)
	}
	return Parent{Counter: counter, pipe: os.NewFile(uintptr(fd), "supervisor"), on: true}, nil
}

// Supervised reports whether there is a supervisor. Without one nobody could put an
// old program back, so no new one is taken.
func (p *Parent) Supervised() bool { return p.on }

// Reported tells the supervisor, once, that this program has reported in.
func (p *Parent) Reported() error {
	if p.pipe == nil {
		return nil
	}
	pipe := p.pipe
	p.pipe = nil
	_, err := io.WriteString(pipe, reported)
	if err != nil {
		pipe.Close()
		return fmt.Errorf("supervisor: %w", err)
	}
	return pipe.Close()
}

// Stale reports whether the newest release that the folder in dir knows of expired
// before now: nothing newer has come since, which an attacker could be the cause of.
func Stale(dir string, now time.Time) (since time.Time, stale bool, err error) {
	s, err := load(dir)
	if err != nil || s.Expires.IsZero() || now.Before(s.Expires) {
		return time.Time{}, false, err
	}
	return s.Expires, true, nil
}
