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

// Deleting an upload costs its robot only time: the robot still has the batch, asks how much of it
// is kept, and starts afresh.

// expire deletes uploads that have not grown since the given time.
func (us *uploads) expire(before time.Time) {
	for us.deleteOldest(before, "") {
	}
}

// makeRoom deletes the upload that has not grown for the longest time, if that time is longer than
// yieldAfter. So abandoned uploads cannot fill the disk. It spares the upload named except, and
// returns false if there is nothing to delete.
func (us *uploads) makeRoom(except string) bool {
	return us.deleteOldest(time.Now().Add(-us.yieldAfter), except)
}

// deleteOldest deletes the upload that has not grown for the longest time. It spares uploads that
// have grown since before, are being written, or are named except. It returns false if there is
// nothing to delete.
func (us *uploads) deleteOldest(before time.Time, except string) bool {
	var oldest *upload
	touched := before
	for _, u := range us.all() {
		u.mu.Lock()
		if u.writer == nil && u.status.Touched.Before(touched) && u.name != except {
			oldest, touched = u, u.status.Touched
		}
		u.mu.Unlock()
	}
	if oldest == nil {
		return false
	}
	oldest.mu.Lock()
	defer oldest.mu.Unlock()
	if oldest.gone() || oldest.writer != nil {
		return true // it was continued or deleted meanwhile, so look again
	}
	us.log.Warn("an upload that nobody continues is deleted", "upload", oldest.name, "bytes", oldest.status.Offset, "since", touched)
	if err := us.remove(oldest); err != nil {
		us.log.Error("an upload cannot be deleted; the next start does", "upload", oldest.name, "err", err)
	}
	return true
}
