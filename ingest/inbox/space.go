package inbox

import (
	"fmt"

	"golang.org/x/sys/unix"

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
