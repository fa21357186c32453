package ingest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Space tells the size of a file system and how much of it can still be
// written, in bytes.
type Space func() (total, free int64, err error)

// DiskSpace asks the file system that holds dir.
func DiskSpace(dir string) Space {
	return func() (total, free int64, err error) {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return 0, 0, fmt.Errorf("statfs %s: %w", dir, err)
		}
		return int64(st.Blocks) * st.Bsize, int64(st.Bavail) * st.Bsize, nil
	}
}

// Full says that a batch does not fit now, and when to try again.
type Full struct {
	Draining   bool // refused until the disk has emptied, whatever the batch's size
	RetryAfter time.Duration
	Detail     string
}

func (f *Full) Error() string { return f.Detail }

// Shares of the disk at which uploads stop, and at which they go on again.
const (
	stopAt   = 0.85
	resumeAt = 0.75
)

// Guard keeps the disk of the buffers from filling up: bytes are reserved when
// they are declared, before the first of them is sent. Once it has refused, it
// refuses until the disk is at 75 %, so that robots do not all push at the brim.
// Its methods may be called at once.
type Guard struct {
	space Space

	mu       sync.Mutex // guards what follows
	reserved map[string]int64
	draining bool
}

// NewGuard guards the disk that space speaks of.
func NewGuard(space Space) *Guard { return &Guard{space: space, reserved: make(map[string]int64)} }

// Reserve sets aside the n bytes that are still to come under a name, in place
// of what was set aside under it before. It fails with *Full where the disk,
// with all that is reserved, would pass 85 %.
func (g *Guard) Reserve(name string, n int64) error {
	total, free, err := g.space()
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	used := total - free
	for other, m := range g.reserved {
		if other != name {
			used += m
		}
	}
	after := float64(used+n) / float64(total)
	if g.draining && float64(used)/float64(total) <= resumeAt {
		g.draining = false
	}
	if g.draining || after > stopAt {
		wasDraining := g.draining
		g.draining = g.draining || float64(used)/float64(total) > resumeAt
		return &Full{
			Draining:   wasDraining,
			RetryAfter: time.Minute + rand.N(2*time.Minute),
			Detail: fmt.Sprintf("no room for %d bytes: the disk of the buffers is %.0f %% full, uploads stop at %.0f %% and go on at %.0f %%; keep the batch and try again",
				n, 100*float64(used)/float64(total), 100*stopAt, 100*resumeAt),
		}
	}
	g.reserved[name] = n
	return nil
}

// Hold sets n bytes aside without asking: of uploads that were admitted before.
func (g *Guard) Hold(name string, n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reserved[name] = n
}

// Release gives back what is set aside under a name.
func (g *Guard) Release(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.reserved, name)
}
