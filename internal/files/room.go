package files

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

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
	block := int64(st.Bsize) // 32 bits wide on some architectures
	return Room{
		Bytes: int64(st.Blocks-st.Bfree+st.Bavail) * block, Free: int64(st.Bavail) * block,
		Files: int64(st.Files), FreeFiles: int64(st.Ffree),
	}, nil
}

// IsFull reports whether an error says that a disk or a quota is full.
func IsFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
