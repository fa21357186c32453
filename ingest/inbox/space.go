package inbox

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sheaf/internal/db"
	"sheaf/internal/files"
)

// Disk is a file system that batches may fill.
type Disk struct {
	Name    string // name in messages, such as "the disk of the buffers"
	Space   func() (files.Room, error)
	Buffers bool // has uploads and batches
	Store   bool // has a local store, to which the split writes a second copy of every batch
}

// Disks returns the file systems of the buffers and of a local store. It returns one Disk if both
// lie on the same file system. store is empty if the store is remote, such as S3.
func Disks(buffers, store string) ([]Disk, error) {
	first := Disk{Name: "the disk of the buffers", Space: func() (files.Room, error) { return files.RoomOn(buffers) }, Buffers: true}
	if store == "" {
		return []Disk{first}, nil
	}
	var a, b unix.Stat_t
	if err := unix.Stat(buffers, &a); err != nil {
		return nil, fmt.Errorf("stat %s: %w", buffers, err)
	}
	if err := unix.Stat(store, &b); err != nil {
		return nil, fmt.Errorf("stat %s: %w", store, err)
	}
	if a.Dev == b.Dev {
		first.Name, first.Store = "the disk of buffers and store", true
		return []Disk{first}, nil
	}
	return []Disk{first, {Name: "the disk of the store", Space: func() (files.Room, error) { return files.RoomOn(store) }, Store: true}}, nil
}

// Full says that there is no room for a batch now, and when to try again.
type Full struct {
	Never      bool // the batch is larger than the disk's part for uploads, so trying again is useless
	Draining   bool // every new upload is refused until the disk is emptier
	RetryAfter time.Duration
	Detail     string
}

func (f *Full) Error() string { return f.Detail }

// Marks are the fill levels of a disk, from 0 to 1, at which uploads stop and go on again.
type Marks struct{ Full, Drained float64 }

// defaultMarks leave room for other data on the disk.
var defaultMarks = Marks{Full: 0.85, Drained: 0.75}

// SpaceClaim is the room that one upload needs.
type SpaceClaim struct {
	Coming int64  // bytes still to be received
	Whole  int64  // bytes of the whole batch, which the split copies into the store
	Guess  int64  // bytes of Whole that are a guess, because the size is not known yet
	Owner  string // owner of the upload, whose share is limited; empty: no owner and no limit
}

// on returns how many bytes of the claim are still to be written to a disk. Sums are floating-point
// numbers: robots may declare any size, and a sum of integers might overflow.
func (c SpaceClaim) on(d *Disk) (n float64) {
	if d.Buffers {
		n += float64(c.Coming)
	}
	if d.Store {
		n += float64(c.Whole)
	}
	return n
}

// alone returns the share of a disk that the batch alone would fill, as far as its size is known. 1
// is the whole disk.
func (c SpaceClaim) alone(d *Disk, room files.Room) float64 {
	whole := SpaceClaim{Coming: c.Whole - c.Guess, Whole: c.Whole - c.Guess}
	return share(whole.on(d), room.Bytes)
}

// Guard keeps disks from filling up. It reserves the bytes of an upload before the first one is
// sent. If the store is a local directory, it also reserves the batch's copy there, because a batch
// lies in both places until it is published and collected. A disk on which no more files can be
// created counts as full.
//
// Once a disk above the lower mark has had no room for an upload, the guard refuses all new uploads
// until the disk is at the lower mark. So robots do not all push at the upper mark. Uploads that
// have begun go on in the meantime. The methods of a Guard may be called concurrently.
//
// One owner's claims get at most three quarters of the room that the others leave, or a quarter of
// the disk if that is more. So nobody can stop the others by only announcing uploads. An owner's
// only upload has no such limit if its size was not announced.
type Guard struct {
	disks   []Disk
	marks   Marks
	retry   time.Duration
	unsplit func() (int64, error) // bytes of whole batches that the split has still to copy into the store

	mu       sync.Mutex // guards the fields below
	claims   map[string]SpaceClaim
	draining bool
}

// NewGuard returns a guard of the disks. Zero marks are 85 % and 75 %. A refused robot is told to
// try again after one to three times retry. unsplit returns the bytes of batches that the split has
// still to copy into the store.
func NewGuard(disks []Disk, marks Marks, retry time.Duration, unsplit func() (int64, error)) *Guard {
	if marks == (Marks{}) {
		marks = defaultMarks
	}
	return &Guard{disks: disks, marks: marks, retry: retry, unsplit: unsplit, claims: make(map[string]SpaceClaim)}
}

// RetryAfter returns how long a refused robot should wait. It is random, so that robots do not all
// come back at once.
func (g *Guard) RetryAfter() time.Duration { return g.retry + rand.N(2*g.retry) }

// Reserve reserves room for an upload that is about to begin, and replaces an earlier reservation
// of the same name. It returns *Full if a disk, with all reservations, would pass the upper mark or
// has to come down to the lower mark first, or if the owner's share is used up.
func (g *Guard) Reserve(name string, c SpaceClaim) error { return g.reserve(name, c, false) }

// Extend is Reserve for an upload that has begun. Neither the lower mark nor its owner's other
// uploads stop it.
func (g *Guard) Extend(name string, c SpaceClaim) error { return g.reserve(name, c, true) }

func (g *Guard) reserve(name string, c SpaceClaim, begun bool) error {
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
		most := g.marks.Full
		if c.Owner != "" {
			most *= ownShare
		}
		if alone := c.alone(d, room); alone > most {
			return &Full{Never: true, Detail: fmt.Sprintf("a batch of %d bytes is too large for the service: it would take %.0f %% of %s, %d bytes, and one robot's stop at %.0f %%; make smaller batches",
				c.Whole, 100*alone, d.Name, room.Bytes, 100*most)}
		}
		if mine := g.owned(d, c, name); full == nil && !begun && c.Owner != "" && (c.Guess == 0 || mine > c.on(d)) && after <= g.marks.Full && mine > max(ownShare*(g.marks.Full*float64(room.Bytes)-taken-c.on(d)+mine), ownLeast*g.marks.Full*float64(room.Bytes)) {
			full = &Full{RetryAfter: g.RetryAfter(), Detail: fmt.Sprintf("%s has announced %.0f bytes of %s with this batch, and may announce three quarters of what others leave; send those first", c.Owner, mine, d.Name)}
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

// ownShare limits one owner's claims to a part of the room that the others leave on a disk.
// ownLeast is the part of the whole disk that an owner may claim in any case; a disk that is almost
// full stops all owners alike.
const (
	ownShare = 0.75
	ownLeast = 0.25
)

// owned returns the bytes that c's owner would have reserved on a disk if c replaced the claim
// called name.
func (g *Guard) owned(d *Disk, c SpaceClaim, name string) float64 {
	mine := c.on(d)
	for other, claim := range g.claims {
		if other != name && claim.Owner == c.Owner {
			mine += claim.on(d)
		}
	}
	return mine
}

// taken returns the bytes of a disk that are used or reserved. except names a reservation that
// does not count.
func (g *Guard) taken(d *Disk, room files.Room, unsplit int64, except string) float64 {
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

// Stopped says which disk stops new uploads, and why. It returns "" if no disk does.
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
			return fmt.Sprintf("%s is %.0f %% full, with what is reserved: uploads stop at %.0f %% and go on at %.0f %%", d.Name, 100*used, 100*g.marks.Full, 100*g.marks.Drained), nil
		}
	}
	return "", nil
}

func share(part float64, whole int64) float64 {
	if whole <= 0 { // no limit
		return 0
	}
	return part / float64(whole)
}

func (g *Guard) refuse(d *Disk, c SpaceClaim, before, after float64) *Full {
	return &Full{Draining: g.draining, RetryAfter: g.RetryAfter(), Detail: fmt.Sprintf("no room for %.0f bytes: %s is %.0f %% full, with what is reserved, and this batch would make it %.0f %%; uploads stop at %.0f %% and go on at %.0f %%; keep the batch and try again",
		c.on(d), d.Name, 100*before, 100*after, 100*g.marks.Full, 100*g.marks.Drained)}
}

// Hold reserves room without a check, for an upload that was admitted before.
func (g *Guard) Hold(name string, c SpaceClaim) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.claims[name] = c
}

// Release ends the reservation under a name.
func (g *Guard) Release(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.claims, name)
}

// NoSpace turns errors of a full disk, quota or database disk into *Full. Such errors occur in
// spite of reservations, because other programs write there as well. Other errors are returned
// unchanged.
func (g *Guard) NoSpace(err error) error {
	if db.Full(err) {
		return &Full{Draining: true, RetryAfter: g.RetryAfter(), Detail: "the disk of the database is full; what has come is kept, go on later"}
	}
	if !files.IsFull(err) {
		return err
	}
	return &Full{Draining: true, RetryAfter: g.RetryAfter(), Detail: "the disk is full; what has come is kept, go on later"}
}
