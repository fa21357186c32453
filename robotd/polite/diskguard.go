package polite

import (
	"fmt"
	"sync"

	"sheaf/internal/files"
	"sheaf/internal/loop"
)

// GuardOptions have the limits and where to look. A limit of 0 is not checked.
type GuardOptions struct {
	Free  int64 // bytes of the disk to keep free
	Spool int64 // limit for bytes in batches and open segments

	Disk func() (Disk, error)

	// Held returns the bytes that batches take, and those of the open segments. Making a batch
	// writes the segments again.
	Held func() (spool, open int64, err error)
}

// Disk is the free space of a file system, for users other than root.
type Disk struct {
	Bytes int64
	Files int64 // files that can still be created; negative: not limited
}

// keepFiles is the number of files to keep free if their number is limited. A host uses five.
const keepFiles = 1000

// Guard reports that a limit is reached, and does so until there is a quarter more space: otherwise
// the report would change with every page. It may be used concurrently.
type Guard struct {
	opt   GuardOptions
	turns chan struct{} // has an element when something becomes short, or nothing is short any more

	mu    sync.Mutex // guards all below
	why   string
	wrote int64 // bytes since the last look
}

// NewGuard returns a guard. It does not look yet.
func NewGuard(opt GuardOptions) *Guard { return &Guard{opt: opt, turns: make(chan struct{}, 1)} }

// Short returns what is short, or "" if nothing is.
func (g *Guard) Short() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.why
}

// Look checks the disk and the spool.
func (g *Guard) Look() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.look()
}

// Wrote records that bytes were stored. Whenever these bytes reach a sixteenth of the lower limit,
// the guard looks.
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
	spool, open, err := g.opt.Held()
	if err != nil {
		return fmt.Errorf("room in the spool: %w", err)
	}
	g.set(g.judge(disk, spool, open))
	return nil
}

func (g *Guard) judge(disk Disk, spool, open int64) string {
	free, files, most := g.opt.Free, int64(keepFiles), g.opt.Spool
	if g.why != "" {
		free, files, most = free+free/4, files+files/4, most-most/4
	}
	switch {
	case g.opt.Free > 0 && disk.Bytes-open < free:
		return fmt.Sprintf("the disk has %d bytes free, of which the next batch takes %d; %d must stay free (disk.free)", disk.Bytes, open, g.opt.Free)
	case g.opt.Free > 0 && disk.Files >= 0 && disk.Files < files:
		return fmt.Sprintf("the disk has room for %d more files; %d must stay free", disk.Files, keepFiles)
	case g.opt.Spool > 0 && open+spool > most:
		return fmt.Sprintf("%d bytes wait for receipts; at most %d may wait (disk.spool)", open+spool, g.opt.Spool)
	}
	return ""
}

// Full records that the disk is full. Collecting stops until a look finds space.
func (g *Guard) Full() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.set("the disk is full")
}

func (g *Guard) set(why string) {
	if (why == "") != (g.why == "") {
		loop.Offer(g.turns, struct{}{})
	}
	g.why = why
}

// DiskOf returns a function that returns the free space on a folder's disk.
func DiskOf(dir string) func() (Disk, error) {
	return func() (Disk, error) {
		room, err := files.RoomOn(dir)
		d := Disk{Bytes: room.Free, Files: room.FreeFiles}
		if room.Files == 0 { // btrfs and others report 0
			d.Files = -1
		}
		return d, err
	}
}
