package receive

import (
	"encoding/json"
	"path/filepath"
	"sync"
	"time"

	"sheaf/ingest/inbox"
	"sheaf/internal/files"
	"sheaf/internal/wire"
)

// Protocols, as transfers and ledger name them.
const (
	overHTTP = "http"
	overFTP  = "ftp"
)

// status is the content of the file <name>.info. The upload's data is in the file <name>.
type status struct {
	Batch    wire.BatchID `json:"batch"`          // not valid if Name is set
	Name     string       `json:"name,omitempty"` // of the file that a robot put by FTP, if it is not a batch's
	Robot    string       `json:"robot"`
	Protocol string       `json:"protocol"`
	Size     int64        `json:"size"`           // declared; over FTP -1: unknown
	Room     int64        `json:"room,omitempty"` // asked for by ALLO, if Size is unknown
	Offset   int64        `json:"offset"`         // bytes that are durable; the file may have more, which do not count
	Touched  time.Time    `json:"touched"`        // when the status was written last
}

// upload returns the name of the upload. Neither a robot's name nor a batch's ID has a plus.
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

// file returns the name of the file that FTP shows.
func (s *status) file() string {
	if s.Name != "" {
		return s.Name
	}
	return string(s.Batch) + batchSuffix
}

// upload is one batch's bytes by one protocol.
type upload struct {
	uploads *uploads
	name    string

	mu       sync.Mutex // guards what follows, and the file while it is written
	status   status
	writer   *writer   // nil if nobody writes
	inferred time.Time // status.Touched when a file without manifest was read last
}

func (u *upload) path() string { return filepath.Join(u.uploads.dir, u.name) }

// gone reports whether the upload has been accepted, deleted or replaced by another.
func (u *upload) gone() bool {
	known, err := u.uploads.get(u.name)
	return err != nil || known != u
}

// get returns the status as it was last stored.
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

// next returns the room that the upload needs to continue: up to the next checkpoint if its size is
// not known.
func (u *upload) next() inbox.SpaceClaim {
	c := u.claim()
	if u.status.Size < 0 && c.Coming == 0 {
		c = inbox.SpaceClaim{Coming: checkpoint, Whole: u.status.Offset + checkpoint, Guess: checkpoint, Owner: u.status.Robot}
	}
	return c
}

// store makes the status durable. The caller holds u.mu.
func (u *upload) store() error {
	u.status.Touched = time.Now().UTC()
	data, err := json.Marshal(u.status)
	if err != nil {
		return err
	}
	return files.WriteFile(u.path()+infoSuffix, data)
}

// settled stops the writer, if there is one, makes what it wrote durable and returns the status.
// Only the caller moves its offset then.
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

// stop takes the upload from its writer, whose next Write fails. The caller holds u.mu.
func (u *upload) stop() {
	if u.writer != nil {
		u.writer.f.Close()
		u.writer = nil
	}
}
