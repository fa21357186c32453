// Package diskguard says when a robot must stop collecting for want of room: on its disk, which it
// shares with others, or in its spool, where batches wait until they are published.
package diskguard

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Options say what there is and how much of it may be used. A bound that is 0 does not hold.
type Options struct {
	Free  int64 // bytes of the disk that stay free
	Spool int64 // bytes of batches and open segments that may wait

	Disk func() (Disk, error)
	Held func() (Held, error)
}

// Disk is the room on a file system, for those who are not root.
type Disk struct {
	Bytes int64
	Files int64 // that can still be made; negative: as many as there are bytes
}

// Held is what the robot keeps on it.
type Held struct {
	Open  int64 // bytes of segments, which making a batch writes once more
	Spool int64 // bytes of batches
}

// keepFiles is how many files stay free where their number is bounded: a host takes five.
const keepFiles = 1000

// Guard stops at the bounds and goes on when a quarter more is free, so that it does not
// stop and go with every page. Many goroutines may use it at once.
type Guard struct {
	opt   Options
	turns chan struct{}

	mu    sync.Mutex // guards all below
	why   string
	wrote int64 // bytes since the last look
}

// NewGuard returns a guard that has not looked yet.
func NewGuard(opt Options) *Guard { return &Guard{opt: opt, turns: make(chan struct{}, 1)} }

// Short says what is short; empty: nothing is.
func (g *Guard) Short() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.why
}

// Turns has a value when Short has changed.
func (g *Guard) Turns() <-chan struct{} { return g.turns }

// Look looks at disk and spool.
func (g *Guard) Look() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.look()
}

// Wrote tells that bytes were stored. The guard looks when they are a part of what is to stay free.
func (g *Guard) Wrote(bytes int64) error {
	const part = 16
	least := int64(0)
	for _, bound := range []int64{g.opt.Free, g.opt.Spool} {
		if bound > 0 && (least == 0 || bound < least) {
			least = bound
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wrote += bytes
	if least == 0 || g.wrote < least/part {
		return nil
	}
	return g.look()
}

func (g *Guard) look() error {
	g.wrote = 0
	disk, err := g.opt.Disk()
	if err != nil {
		return fmt.Errorf("room on the disk: %w", err)
	}
	held, err := g.opt.Held()
	if err != nil {
		return fmt.Errorf("room in the spool: %w", err)
	}
	g.set(g.judge(disk, held))
	return nil
}

func (g *Guard) judge(disk Disk, held Held) string {
	free, files, spool := g.opt.Free, int64(keepFiles), g.opt.Spool
	if g.why != "" {
		free, files, spool = free+free/4, files+files/4, spool-spool/4
	}
	switch {
	case g.opt.Free > 0 && disk.Bytes-held.Open < free:
		return fmt.Sprintf("the disk has %d bytes free, and the next batch takes %d of them; %d are to stay (disk.free)", disk.Bytes, held.Open, g.opt.Free)
	case g.opt.Free > 0 && disk.Files >= 0 && disk.Files < files:
		return fmt.Sprintf("the disk has room for %d files more; %d are to stay", disk.Files, keepFiles)
	case g.opt.Spool > 0 && held.Open+held.Spool > spool:
		return fmt.Sprintf("%d bytes wait for receipts; %d may (disk.spool)", held.Open+held.Spool, g.opt.Spool)
	}
	return ""
}

// Full tells that the disk took no more. Nothing is collected until a look finds room.
func (g *Guard) Full() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.set("the disk is full")
}

func (g *Guard) set(why string) {
	changed := (why == "") != (g.why == "")
	g.why = why
	if !changed {
		return
	}
	select {
	case g.turns <- struct{}{}:
	default: // told already
	}
}

// IsFull reports whether an error tells of a disk or a share of it that is full.
func IsFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// DiskOf asks for the room on a folder's disk.
func DiskOf(dir string) func() (Disk, error) {
	return func() (Disk, error) {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return Disk{}, err
		}
		d := Disk{Bytes: int64(st.Bavail) * st.Bsize, Files: int64(st.Ffree)}
		if st.Files == 0 { // btrfs and others count none
			d.Files = -1
		}
		return d, nil
	}
}
