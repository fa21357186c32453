package receive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"sheaf/ingest/inbox"
	"sheaf/internal/files"
	"sheaf/internal/wire"
)

// checkpoint is the number of bytes after which an upload is made durable. A crash loses at most
// this many bytes of an upload.
const checkpoint = 16 << 20

// Errors that each protocol answers in its own way.
var (
	errNoUpload  = errors.New("there is no such upload")
	errTakenOver = errors.New("another connection has taken this upload over")
	errOffset    = errors.New("offset is not where what is kept ends")
	errTooSlow   = errors.New("too slow")
)

// Boundaries returns the names of an upload's durable writes, in their order.
func Boundaries() []string { return []string{writeCreate, writeData, writeOffset, writeForget} }

const (
	writeCreate = "create" // the empty file and its status
	writeData   = "data"   // fsync of received bytes
	writeOffset = "offset" // the status, which makes these bytes count
	writeForget = "forget" // the upload deleted
)

// uploads keeps the bytes of batches that are not accepted yet.
type uploads struct {
	dir        string
	lock       *os.File // lock of dir, held until the process ends; nil if no other process receives
	log        *slog.Logger
	guard      *inbox.Guard
	boundary   files.Boundary
	yieldAfter time.Duration // see Options
	pace       pace

	mu     sync.Mutex // guards byName; it may be locked while an upload's mutex is held, but not the other way round
	byName map[string]*upload
}

const infoSuffix = ".info"

// prepare reads the uploads of earlier runs, cuts them back to the bytes that count, and deletes
// stale and half-created ones.
func (us *uploads) prepare(stale func(status) (bool, error)) error {
	if err := files.MkdirAll(us.dir, 0o750); err != nil {
		return err
	}
	entries, err := os.ReadDir(us.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), infoSuffix); ok {
			if err := us.load(name, stale); err != nil {
				return fmt.Errorf("upload %s: %w", name, err)
			}
		}
	}
	for _, e := range entries {
		if us.byName[strings.TrimSuffix(e.Name(), infoSuffix)] == nil {
			if err := files.Remove(filepath.Join(us.dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (us *uploads) load(name string, stale func(status) (bool, error)) error {
	u := &upload{uploads: us, name: name}
	data, err := os.ReadFile(u.path() + infoSuffix)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &u.status); err != nil {
		us.log.Error("the status of an upload cannot be read; its robot will send it again", "upload", name, "err", err)
		return nil
	}
	if drop, err := stale(u.status); drop || err != nil {
		return err
	}
	u.robot, u.protocol = u.status.Robot, u.status.Protocol
	st, err := os.Stat(u.path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // it was accepted, or was being deleted
	case err != nil:
		return err
	}
	u.status.Offset = min(u.status.Offset, st.Size())
	if err := os.Truncate(u.path(), u.status.Offset); err != nil {
		return err
	}
	us.byName[name] = u
	us.guard.Hold(name, u.claim())
	return nil
}

// get returns an upload, or errNoUpload.
func (us *uploads) get(name string) (*upload, error) {
	us.mu.Lock()
	defer us.mu.Unlock()
	if u := us.byName[name]; u != nil {
		return u, nil
	}
	return nil, errNoUpload
}

// all returns the uploads in no particular order.
func (us *uploads) all() []*upload {
	us.mu.Lock()
	defer us.mu.Unlock()
	return slices.Collect(maps.Values(us.byName))
}

// of returns a robot's uploads by one protocol, sorted by name.
func (us *uploads) of(robot, protocol string) []*upload {
	all := slices.DeleteFunc(us.all(), func(u *upload) bool { return u.robot != robot || u.protocol != protocol })
	slices.SortFunc(all, func(a, b *upload) int { return strings.Compare(a.name, b.name) })
	return all
}

// maxUploads is how many uploads one robot may have under way. Whole batches that wait for their
// manifests, and files without a manifest that may still grow, count too.
const maxUploads = 1000

// others returns how many uploads a robot has besides the upload called name.
func (us *uploads) others(robot, name string) (n int) {
	us.mu.Lock()
	defer us.mu.Unlock()
	for _, u := range us.byName { // without their mutexes, which writers hold while they wait for the disk
		if u.name != name && u.robot == robot {
			n++
		}
	}
	return n
}

// create starts an upload afresh and replaces an upload of the same name. It fails with *inbox.Full
// if the robot has too many uploads, or if there is no room for the declared size even after
// abandoned uploads have been deleted.
func (us *uploads) create(st status) (*upload, error) {
	name := st.upload()
	if n := us.others(st.Robot, name); n >= maxUploads {
		return nil, &inbox.Full{RetryAfter: us.guard.RetryAfter(), Detail: fmt.Sprintf("robot %s has %d uploads under way, and may have %d; finish or delete some", st.Robot, n, maxUploads)}
	}
	for {
		err := us.guard.Reserve(name, (&upload{status: st}).next())
		if _, ok := errors.AsType[*inbox.Full](err); ok && us.makeRoom(name) {
			continue
		}
		if err != nil {
			return nil, err
		}
		break
	}
	u, fresh := us.enter(st)
	defer u.mu.Unlock()
	u.stop()
	u.status = st
	err := us.boundary.Write(writeCreate, func() error {
		// The next start deletes a file without status. So the file of a new upload comes first,
		// and writing the status makes both durable. The status of an old upload comes before the
		// file is emptied, because it lowers the offset.
		if fresh {
			return errors.Join(os.WriteFile(u.path(), nil, 0o640), u.store())
		}
		return errors.Join(u.store(), files.Create(u.path()))
	})
	if err != nil {
		return nil, errors.Join(err, us.remove(u))
	}
	return u, nil
}

// enter finds or adds an upload, and returns it with its mutex held.
func (us *uploads) enter(st status) (u *upload, fresh bool) {
	for name := st.upload(); ; {
		us.mu.Lock()
		u := us.byName[name]
		if u == nil {
			u = &upload{uploads: us, name: name, robot: st.Robot, protocol: st.Protocol}
			u.mu.Lock() // no other goroutine knows it yet
			us.byName[name] = u
			us.mu.Unlock()
			return u, true
		}
		us.mu.Unlock()
		u.mu.Lock()
		if !u.gone() {
			return u, false
		}
		u.mu.Unlock()
	}
}

// remove deletes an upload. The caller holds u.mu.
func (us *uploads) remove(u *upload) error {
	u.stop()
	us.mu.Lock()
	delete(us.byName, u.name)
	us.mu.Unlock()
	us.guard.Release(u.name)
	return us.boundary.Write(writeForget, func() error {
		// If only one of the two is left, the next start deletes it.
		if err := errors.Join(os.RemoveAll(u.path()+infoSuffix), os.RemoveAll(u.path())); err != nil {
			return err
		}
		return files.SyncDir(us.dir)
	})
}

// Protocols, by their names in transfers and ledger.
const (
	overHTTP = "http"
	overFTP  = "ftp"
)

// status is the content of the file <name>.info. The upload's data is in the file <name>.
type status struct {
	Batch    wire.BatchID `json:"batch"`          // empty if Name is set
	Name     string       `json:"name,omitempty"` // name of a file by FTP that is no batch's
	Robot    string       `json:"robot"`
	Protocol string       `json:"protocol"`
	Size     int64        `json:"size"`           // declared; -1 if it is unknown, over FTP
	Room     int64        `json:"room,omitempty"` // announced by ALLO, if Size is unknown
	Offset   int64        `json:"offset"`         // durable bytes; further bytes in the file do not count
	Touched  time.Time    `json:"touched"`        // when the status was last written
}

// upload returns the upload's name. The plus keeps names apart: no robot's name and no batch ID has
// a plus.
func (s *status) upload() string {
	if s.Name != "" {
		return s.Robot + "+" + s.Name
	}
	return uploadName(s.Batch, s.Protocol)
}

// uploadName returns the name of a batch's upload by a protocol.
func uploadName(id wire.BatchID, protocol string) string {
	if protocol == overFTP {
		return string(id) + ".ftp"
	}
	return string(id)
}

// file returns the name under which FTP shows the upload.
func (s *status) file() string {
	if s.Name != "" {
		return s.Name
	}
	return string(s.Batch) + batchSuffix
}

// upload is the bytes of one batch that come by one protocol.
type upload struct {
	uploads  *uploads
	name     string
	robot    string // as in status, of which the name has both
	protocol string

	mu       sync.Mutex // guards the fields below, and the file while it is written
	status   status
	writer   *writer   // nil: nobody writes
	inferred time.Time // status.Touched when the file without manifest was last read
}

func (u *upload) path() string { return filepath.Join(u.uploads.dir, u.name) }

// gone reports whether the upload has been accepted, deleted or replaced by another.
func (u *upload) gone() bool {
	known, err := u.uploads.get(u.name)
	return err != nil || known != u
}

// get returns the last stored status.
func (u *upload) get() status {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.status
}

// claim returns the room that the upload needs beyond what it has on the disk.
func (u *upload) claim() inbox.SpaceClaim {
	whole := max(u.status.Size, u.status.Room, u.status.Offset)
	return inbox.SpaceClaim{Coming: whole - u.status.Offset, Whole: whole, Owner: u.status.Robot}
}

// next returns the room that the upload needs to continue. If its size is not known, that is the
// room up to the next checkpoint.
func (u *upload) next() inbox.SpaceClaim {
	c := u.claim()
	if u.status.Size < 0 && c.Coming == 0 {
		c = inbox.SpaceClaim{Coming: checkpoint, Whole: u.status.Offset + checkpoint, Guess: checkpoint, Owner: u.status.Robot}
	}
	return c
}

// store sets Touched and makes the status durable. The caller holds u.mu.
func (u *upload) store() error {
	u.status.Touched = time.Now().UTC()
	data, err := json.Marshal(u.status)
	if err != nil {
		return err
	}
	return files.WriteFile(u.path()+infoSuffix, data)
}

// settled stops the writer, if there is one, makes its bytes durable and returns the status. The
// old writer cannot change the offset any more.
func (u *upload) settled() (status, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	err := u.settle()
	return u.status, err
}

// settle is settled for callers that hold u.mu.
func (u *upload) settle() error {
	if u.writer == nil {
		return nil
	}
	err := u.writer.commit()
	u.stop()
	u.uploads.guard.Hold(u.name, u.claim())
	return err
}

// stop takes the upload from its writer, so that the writer's next Write fails. The caller holds
// u.mu.
func (u *upload) stop() {
	if u.writer != nil {
		u.writer.f.Close()
		u.writer = nil
	}
}

// resume takes the upload over and continues exactly at the end of the kept bytes. So the late
// bytes of an old connection cannot overwrite bytes of which a newer connection has been told.
func (u *upload) resume(at int64) (*writer, error) { return u.takeOver(at, true) }

// begin takes the upload over and continues at an offset within the kept bytes. It drops the bytes
// beyond the offset.
func (u *upload) begin(at int64) (*writer, error) { return u.takeOver(at, false) }

func (u *upload) takeOver(at int64, atEnd bool) (*writer, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.settle(); err != nil {
		return nil, err
	}
	switch {
	case u.gone(): // it was accepted or deleted meanwhile
		return nil, errNoUpload
	case at > u.status.Offset, atEnd && at != u.status.Offset:
		return nil, errOffset
	}
	if at < u.status.Offset {
		u.status.Offset = at
		if err := u.store(); err != nil {
			return nil, err
		}
	}
	if err := os.Truncate(u.path(), at); err != nil {
		return nil, err
	}
	if err := u.uploads.guard.Extend(u.name, u.next()); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(u.path(), os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	u.writer = &writer{u: u, f: f, at: at, since: time.Now(), from: at}
	return u.writer, nil
}

// writer appends to an upload until it is closed or another writer takes the upload over.
type writer struct {
	u  *upload
	f  *os.File
	at int64 // offset up to which it has written

	since time.Time // beginning of the window in which the rate is measured
	from  int64     // at when the window began
}

// pace is the slowest rate allowed, in bytes a second on an average of the window. It keeps slow
// senders from holding connections. The protocols themselves disconnect senders that send nothing
// at all.
type pace struct {
	least  int64
	window time.Duration
}

// checkPace fails with errTooSlow if the sender is too slow. It checks once in each window.
func (w *writer) checkPace() error {
	p, now := w.u.uploads.pace, time.Now()
	took, got := now.Sub(w.since), w.at-w.from
	if took < p.window {
		return nil
	}
	w.since, w.from = now, w.at
	if float64(got) < float64(p.least)*took.Seconds() {
		return fmt.Errorf("%w: %d bytes came in %v, and %d a second is the least; what came is kept, go on from there",
			errTooSlow, got, took.Round(time.Second), p.least)
	}
	return nil
}

// Write appends p. At every checkpoint it makes the written bytes durable. If the upload's size was
// not declared, it also reserves room up to the next checkpoint.
func (w *writer) Write(p []byte) (int, error) {
	w.u.mu.Lock()
	defer w.u.mu.Unlock()
	if w.u.writer != w {
		return 0, errTakenOver
	}
	n, err := w.f.WriteAt(p, w.at)
	w.at += int64(n)
	if err == nil {
		err = w.checkPace()
	}
	if err == nil && w.at-w.u.status.Offset >= checkpoint {
		if err = w.commit(); err == nil {
			err = w.u.uploads.guard.Extend(w.u.name, w.u.next())
		}
	}
	return n, err
}

// Close makes all written bytes durable and releases the upload. It fails with errTakenOver if
// another writer has the upload.
func (w *writer) Close() error {
	w.u.mu.Lock()
	defer w.u.mu.Unlock()
	if w.u.writer != w {
		return errTakenOver
	}
	return w.u.settle()
}

// commit makes the written bytes durable and then counts them in the status. The caller holds u.mu.
func (w *writer) commit() error {
	if w.at == w.u.status.Offset {
		return nil
	}
	us := w.u.uploads
	if err := us.boundary.Write(writeData, w.f.Sync); err != nil {
		return err
	}
	before := w.u.status.Offset
	w.u.status.Offset = w.at
	if err := us.boundary.Write(writeOffset, w.u.store); err != nil {
		w.u.status.Offset = before // a full disk may have had room for the bytes but not for the status
		return err
	}
	us.guard.Hold(w.u.name, w.u.claim())
	return nil
}
