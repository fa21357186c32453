package inbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Disk is a file system that batches may fill.
type Disk struct {
	Name    string // name in messages, such as "the disk of the buffers"
	Space   func() (Room, error)
	Buffers bool // has uploads and batches
	Store   bool // has a local store, to which the split writes a second copy of every batch
}

// Room is the size of a file system and its free part, as df counts them: what is reserved for root
// is not free. Files is zero if the number of files is not limited.
type Room struct {
	Bytes, Free      int64
	Files, FreeFiles int64
}

// RoomOn returns the room on the file system that holds a path.
func RoomOn(path string) (Room, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Room{}, fmt.Errorf("statfs %s: %w", path, err)
	}
	return Room{
		Bytes: int64(st.Blocks-st.Bfree+st.Bavail) * st.Bsize, Free: int64(st.Bavail) * st.Bsize,
		Files: int64(st.Files), FreeFiles: int64(st.Ffree),
	}, nil
}

// Disks returns the file systems of the buffers and of a local store. It returns one Disk if both
// lie on the same file system. store is empty if the store is remote, such as S3.
func Disks(buffers, store string) ([]Disk, error) {
	first := Disk{Name: "the disk of the buffers", Space: func() (Room, error) { return RoomOn(buffers) }, Buffers: true}
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
	return []Disk{first, {Name: "the disk of the store", Space: func() (Room, error) { return RoomOn(store) }, Store: true}}, nil
}
