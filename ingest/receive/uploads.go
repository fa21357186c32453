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

	"sheaf/ingest/space"
	"sheaf/internal/durable"
	"sheaf/internal/wire"
)

// checkpoint is how many bytes are written between two promises: what a crash
// can cost an upload, and no more.
const checkpoint = 16 << 20

// Errors that the protocols answer in their own ways.
var (
	errNoUpload  = errors.New("there is no such upload")
	errTakenOver = errors.New("another connection has taken this upload over")
	errOffset    = errors.New("offset is not where what is kept ends")
	errTooSlow   = errors.New("too slow")
)

// Boundaries names the durable writes of an upload in their order.
func Boundaries() []string { return []string{writeCreate, writeData, writeOffset, writeForget} }

const (
	writeCreate = "create" // the empty file and its status
	writeData   = "data"   // fsync of bytes that came
	writeOffset = "offset" // the status: these bytes count
	writeForget = "forget" // the upload cleared away
)

// status is what is known of an upload: the file <name>.info. The data lies
// beside it in <name>.
type status struct {
	Batch    wire.BatchID `json:"batch"`          // not valid where Name is set
	Name     string       `json:"name,omitempty"` // as a robot put it by FTP, where that is no batch's
	Robot    string       `json:"robot"`
	Protocol string       `json:"protocol"`
	Size     int64        `json:"size"`           // declared; unknown over FTP: -1
	Room     int64        `json:"room,omitempty"` // asked for by ALLO, where Size is unknown
	Offset   int64        `json:"offset"`         // bytes that are durable; the file may hold more, which do not count
	Touched  time.Time    `json:"touched"`
}

// upload is the name that the upload is kept under. A robot's name has no plus, a batch's ID neither.
func (s *status) upload() string {
	if s.Name != "" {
		return s.Robot + "+" + s.Name
	}
	return uploadName(s.Batch, s.Protocol)
}

// file is the name under which FTP shows it.
func (s *status) file() string {
	if s.Name != "" {
		return s.Name
	}
	return string(s.Batch) + batchSuffix
}

// uploads keeps the bytes of batches that are not whole yet.
type uploads struct {
	dir      string
	lock     *os.File // of dir, held as long as the process lives; nil where no other receives
	log      *slog.Logger
	guard    *space.Guard
	boundary func(write, when string)
	yield    time.Duration // as Options has it
	pace     pace

	mu   sync.Mutex         // guards open; taken after an upload's own, never before one that others know
	open map[string]*upload // every upload there is, by name
}

// upload is one batch's bytes by one protocol.
type upload struct {
	uploads *uploads
	name    string

	mu     sync.Mutex // guards what follows, and the file while it is written
	status status
	writer *writer   // the one that may write; nil where none is at it
	walked time.Time // status.Touched when a file without manifest was read last
}

const infoSuffix = ".info"

// prepare reads the uploads of earlier runs, cuts them back to what was
// promised, and removes those that are stale or were never finished being made.
func (us *uploads) prepare(stale func(status) (bool, error)) error {
	if err := durable.MkdirAll(us.dir, 0o750); err != nil {
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
		if us.open[strings.TrimSuffix(e.Name(), infoSuffix)] == nil {
			if err := durable.Remove(filepath.Join(us.dir, e.Name())); err != nil {
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
	drop, err := stale(u.status)
	if drop || err != nil {
		return err
	}
	st, err := os.Stat(u.path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // was moved away by ingest, or was being forgotten
	case err != nil:
		return err
	}
	u.status.Offset = min(u.status.Offset, st.Size())
	if err := os.Truncate(u.path(), u.status.Offset); err != nil {
		return err
	}
	us.open[name] = u
	us.guard.Hold(name, u.claim())
	return nil
}

// get finds an upload, or fails with errNoUpload.
func (us *uploads) get(name string) (*upload, error) {
	us.mu.Lock()
	defer us.mu.Unlock()
	if u := us.open[name]; u != nil {
		return u, nil
	}
	return nil, errNoUpload
}

// all lists the uploads there are, in no order.
func (us *uploads) all() []*upload {
	us.mu.Lock()
	defer us.mu.Unlock()
	return slices.Collect(maps.Values(us.open))
}

// of lists a robot's uploads by one protocol, by name.
func (us *uploads) of(robot, protocol string) []*upload {
	all := slices.DeleteFunc(us.all(), func(u *upload) bool {
		s := u.get()
		return s.Robot != robot || s.Protocol != protocol
	})
	slices.SortFunc(all, func(a, b *upload) int { return strings.Compare(a.name, b.name) })
	return all
}

// create begins an upload afresh, in place of one of the same name. It fails
// with *space.Full where there is no room for the declared size, even after
// uploads that nobody goes on with have made way.
func (us *uploads) create(st status) (*upload, error) {
	name := st.upload()
	for {
		err := us.guard.Reserve(name, (&upload{status: st}).next())
		var full *space.Full
		if errors.As(err, &full) && us.makeWay(name) {
			continue
		}
		if err != nil {
			return nil, err
		}
		break
	}
	u, fresh := us.enter(name)
	defer u.mu.Unlock()
	u.stop()
	u.status = st
	err := us.write(writeCreate, func() error {
		// A file without status is swept, so the file goes first where both are
		// new, and the status makes the entries of both durable; a status that lowers
		// an old promise goes before the file does.
		if fresh {
			return errors.Join(os.WriteFile(u.path(), nil, 0o640), u.store())
		}
		return errors.Join(u.store(), durable.Create(u.path()))
	})
	if err != nil {
		return nil, errors.Join(err, us.forget(u))
	}
	return u, nil
}

// enter finds an upload or adds it, and gives it with its mutex held.
func (us *uploads) enter(name string) (u *upload, fresh bool) {
	for {
		us.mu.Lock()
		u := us.open[name]
		if u == nil {
			u = &upload{uploads: us, name: name}
			u.mu.Lock() // nobody else knows it yet
			us.open[name] = u
			us.mu.Unlock()
			return u, true
		}
		us.mu.Unlock()
		u.mu.Lock()
		if known, err := us.get(name); err == nil && known == u {
			return u, false
		}
		u.mu.Unlock() // it was forgotten meanwhile
	}
}

// forget clears an upload away; u.mu is held.
func (us *uploads) forget(u *upload) error {
	u.stop()
	us.mu.Lock()
	delete(us.open, u.name)
	us.mu.Unlock()
	us.guard.Release(u.name)
	return us.write(writeForget, func() error {
		// Either of the two alone is swept by the next start.
		if err := errors.Join(os.RemoveAll(u.path()+infoSuffix), os.RemoveAll(u.path())); err != nil {
			return err
		}
		return durable.SyncDir(us.dir)
	})
}

func (us *uploads) write(name string, f func() error) error {
	us.boundary(name, "before")
	err := f()
	us.boundary(name, "after")
	return err
}

func (u *upload) path() string { return filepath.Join(u.uploads.dir, u.name) }

// get gives the status as it was last promised.
func (u *upload) get() status {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.status
}

// claim is the room that the upload takes besides what it has on disk.
func (u *upload) claim() space.Claim {
	whole := max(u.status.Size, u.status.Room, u.status.Offset)
	return space.Claim{Coming: whole - u.status.Offset, Whole: whole}
}

// next is the room for it to go on: where its size is not known, up to the next
// promise and no further.
func (u *upload) next() space.Claim {
	c := u.claim()
	if u.status.Size < 0 && c.Coming == 0 {
		c = space.Claim{Coming: checkpoint, Whole: u.status.Offset + checkpoint, Guess: u.status.Offset == 0}
	}
	return c
}

// store makes the status durable; u.mu is held.
func (u *upload) store() error {
	u.status.Touched = time.Now().UTC()
	data, err := json.Marshal(u.status)
	if err != nil {
		return err
	}
	return durable.WriteFile(u.path()+infoSuffix, data)
}

// settled gives the status after whoever was writing has been stopped and all of
// what it wrote is durable: an offset that nobody but the asker will move.
func (u *upload) settled() (status, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	err := u.settle()
	return u.status, err
}

// settle is settled with u.mu held.
func (u *upload) settle() error {
	if u.writer == nil {
		return nil
	}
	err := u.writer.promise()
	u.stop()
	u.uploads.guard.Hold(u.name, u.claim())
	return err
}

// stop takes the upload from its writer, whose next Write fails; u.mu is held.
func (u *upload) stop() {
	if u.writer != nil {
		u.writer.f.Close()
		u.writer = nil
	}
}
