package update

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

// Variables in the child's environment that tell it about its supervisor.
const (
	pipeVariable    = "SHEAF_SUPERVISOR" // file descriptor on which to report
	counterVariable = "SHEAF_RELEASE"    // counter of the child's release; 0: not a release
)

// reported is what the child writes when it has reported to the manager.
const reported = "REPORTED\n"

// Parent is the supervisor, as seen by the child.
type Parent struct {
	Counter int64 // of the release that the child runs

	pipe io.WriteCloser // nil: there is no supervisor, or it has been told
	on   bool
}

// FindParent returns the supervisor of this process, from the environment.
func FindParent() (Parent, error) {
	text := os.Getenv(pipeVariable)
	if text == "" {
		return Parent{}, nil
	}
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 3 {
		return Parent{}, fmt.Errorf("%s=%q is not the number of a file descriptor", pipeVariable, text)
	}
	counter, err := strconv.ParseInt(os.Getenv(counterVariable), 10, 64)
	if err != nil {
		return Parent{}, fmt.Errorf("%s: %w", counterVariable, err)
	}
	return Parent{Counter: counter, pipe: os.NewFile(uintptr(fd), "supervisor"), on: true}, nil
}

// Supervised reports whether there is a supervisor. Without one nobody could go back to the old
// program, so new ones are not accepted.
func (p *Parent) Supervised() bool { return p.on }

// Reported tells the supervisor, once, that this program has reported to the manager.
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

// Stale reports whether the newest release that this robot has seen has expired, and when. If it
// has, nothing newer has come since, perhaps because of an attacker.
func Stale(dir string, now time.Time) (since time.Time, stale bool, err error) {
	s, err := load(dir)
	if err != nil || s.Expires.IsZero() || now.Before(s.Expires) {
		return time.Time{}, false, err
	}
	return s.Expires, true, nil
}
