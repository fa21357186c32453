package receive

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sheaf/ingest/inbox"
	"sheaf/internal/files"
	"sheaf/internal/wire"
)

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
