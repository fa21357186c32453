package receive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"sheaf/internal/files"
)

// ownDir locks and returns the first of the directories receive, receive-1, … that no other process
// uses. The lock lasts until the process ends. So a process that starts later finds and continues
// the uploads of a process that has died.
func ownDir(buffers string) (dir string, lock *os.File, err error) {
	for n := 0; ; n++ {
		dir = filepath.Join(buffers, "receive")
		if n > 0 {
			dir += fmt.Sprint("-", n)
		}
		if err := files.MkdirAll(dir, 0o750); err != nil {
			return "", nil, err
		}
		lock, err := os.Open(dir)
		if err != nil {
			return "", nil, err
		}
		err = files.TryLock(lock)
		if err == nil {
			return dir, lock, nil
		}
		if closing := lock.Close(); closing != nil || !errors.Is(err, unix.EWOULDBLOCK) {
			return "", nil, errors.Join(err, closing)
		}
	}
}
