package ingest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Full says that a batch does not fit now, and when to try again.
type Full struct {
	Never      bool // the batch is larger than uploads may ever fill of the disk: trying again will not help
	Draining   bool // refused until the disk has emptied, whatever the batch's size
	RetryAfter time.Duration
	Detail     string
}

func (f *Full) Error() string { return f.Detail }

// Marks are the shares of a disk at which uploads stop, and at which they go on again.
type Marks struct{ Full, Drained float64 }

// DefaultMarks leave a disk room for what else is written to it.
func DefaultMarks() Marks { return Marks{Full: 0.85, Drained: 0.75} }

// Disk is a file system that batches fill.
type Disk struct {
	Name    string // for messages, such as "the disk of the buffers"
	Space   Space
	Buffers bool // uploads and batches lie on it
	Store   bool // what the split writes lies on it: every batch once more
}

// Claim is the room that one upload takes.
type Claim struct {
	Coming int64 // bytes still to be received
	Whole  int64 // bytes of the whole batch, which the split copies into the store
	Guess  bool  // nothing is known of its size yet, so it is not too large either
}

// on is how much of the claim has yet to be written to a disk. Sums are taken in
// floating point: robots declare any number, and two of the largest must not make a small one.
func (c Claim) on(d *Disk) (n float64) {
	if d.Buffers {
		n += float64(c.Coming)
	}
	if d.Store {
		n += float64(c.Whole)
	}
	return n
}

// alone is the claim's share of a disk once all of it has been written there.
func (c Claim) alone(d *Disk, room Room) float64 {
	whole := Claim{Coming: c.Whole, Whole: c.Whole}
	return share(whole.on(d), room.Bytes)
}

// Guard keeps the disks that batches pass through from filling up. Bytes are set
// aside when they are declared, before the first of them is sent; where the store
// is a local directory its copy of the batch is set aside with them, for the
// split deletes nothing: until the batch is published and collected it lies there twice. A disk
// without room for another file is as full as one without room for another byte. Once the guard has
// refused, it refuses until the disk is at the lower mark, so that robots do not all push at the
// brim; what was begun goes on meanwhile. Its methods may be called at once.
type Guard struct {
	disks   []Disk
	marks   Marks
	again   time.Duration
	unsplit func() (int64, error) // bytes of batches that came whole and are still to be copied into the store

	mu       sync.Mutex // guards what follows
	claims   map[string]Claim
	draining bool
}

// NewGuard guards the disks, by DefaultMarks where marks is zero. Who is refused is told to come again after one to
// three times the given time; unsplit tells what the split still owes a local store.
func NewGuard(disks []Disk, marks Marks, again time.Duration, unsplit func() (int64, error)) *Guard {
	if marks == (Marks{}) {
		marks = DefaultMarks()
	}
	return &Guard{disks: disks, marks: marks, again: again, unsplit: unsplit, claims: make(map[string]Claim)}
}

// Later says after how long one that was refused shall come again: not all at once.
func (g *Guard) Later() time.Duration { return g.again + rand.N(2*g.again) }

// Reserve sets room aside for an upload that is to begin, in place of what was
// set aside under its name before. It fails with *Full where a disk, with all that
// is set aside, would pass the upper mark, and while one drains.
func (g *Guard) Reserve(name string, c Claim) error { return g.reserve(name, c, false) }

// Extend is Reserve for an upload that has begun: it goes on while the disk drains.
func (g *Guard) Extend(name string, c Claim) error { return g.reserve(name, c, true) }

func (g *Guard) reserve(name string, c Claim, begun bool) error {
	unsplit, err := g.unsplit()
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	drained := true
	var full *Full
	for i := range g.disks {
		d := &g.disks[i]
		room, err := d.Space()
		if err != nil {
			return err
		}
		taken := g.taken(d, room, unsplit, name)
		files := share(float64(room.Files-room.FreeFiles), room.Files)
		before := max(share(taken+g.claims[name].on(d), room.Bytes), files)
		after := max(share(taken+c.on(d), room.Bytes), files)
		drained = drained && before <= g.marks.Drained
		if alone := c.alone(d, room); alone > g.marks.Full && !c.Guess {
			return &Full{Never: true, Detail: fmt.Sprintf("a batch of %d bytes is too large for the service: it would take %.0f %% of %s, %d bytes, and uploads stop at %.0f %%; make smaller batches",
				c.Whole, 100*alone, d.Name, room.Bytes, 100*g.marks.Full)}
		}
		if full == nil && (after > g.marks.Full || g.draining && !begun && before > g.marks.Drained) {
			full = g.refuse(d, c, before, after)
			g.draining = g.draining || before > g.marks.Drained
		}
	}
	if drained {
		g.draining = false
	}
	if full != nil {
		return full
	}
	g.claims[name] = c
	return nil
}

// taken is how much of a disk is in use or set aside, but for what is set aside under a name.
func (g *Guard) taken(d *Disk, room Room, unsplit int64, except string) float64 {
	taken := float64(room.Bytes - room.Free)
	if d.Store {
		taken += float64(unsplit)
	}
	for other, claim := range g.claims {
		if other != except {
			taken += claim.on(d)
		}
	}
	return taken
}

// Stopped says which disk keeps new uploads waiting, and why; it is empty where none does.
func (g *Guard) Stopped() (string, error) {
	unsplit, err := g.unsplit()
	if err != nil {
		return "", err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.disks {
		d := &g.disks[i]
		room, err := d.Space()
		if err != nil {
			return "", err
		}
		used := max(share(g.taken(d, room, unsplit, ""), room.Bytes), share(float64(room.Files-room.FreeFiles), room.Files))
		if used > g.marks.Full || g.draining && used > g.marks.Drained {
			return fmt.Sprintf("%s is %.0f %% full, with what is set aside: uploads stop at %.0f %% and go on at %.0f %%", d.Name, 100*used, 100*g.marks.Full, 100*g.marks.Drained), nil
		}
	}
	return "", nil
}

func share(part float64, whole int64) float64 {
	if whole <= 0 { // a file system without a limit of this kind
		return 0
	}
	return part / float64(whole)
}

func (g *Guard) refuse(d *Disk, c Claim, before, after float64) *Full {
	f := &Full{Draining: g.draining, RetryAfter: g.Later()}
	f.Detail = fmt.Sprintf("no room for %.0f bytes: %s is %.0f %% full, with what is set aside, and this batch would make it %.0f %%; uploads stop at %.0f %% and go on at %.0f %%; keep the batch and try again",
		c.on(d), d.Name, 100*before, 100*after, 100*g.marks.Full, 100*g.marks.Drained)
	return f
}

// Hold sets room aside without asking: for uploads that were admitted before.
func (g *Guard) Hold(name string, c Claim) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.claims[name] = c
}

// Release gives back what is set aside under a name.
func (g *Guard) Release(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.claims, name)
}
