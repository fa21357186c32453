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

// file returns the name under which FTP shows the upload.
func (s *status) file() string {
	if s.Name != "" {
		return s.Name
	}
	return string(s.Batch) + batchSuffix
}

// upload is the bytes of one batch that come by one protocol.
type upload struct {
	uploads *uploads
	name    string

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

// store makes the status durable. The caller holds u.mu.
func (u *upload) store() error {
	u.status.Touched = time.Now().UTC()
	data, err := json.Marshal(u.status)
	if err != nil {
		return err
	}
	return files.WriteFile(u.path()+infoSuffix, data)
}

// settled stops the writer, if there is one, makes its bytes durable and returns the status. After
// that only the caller can change the offset.
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
