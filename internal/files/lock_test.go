package files_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sheaf/internal/files"
	"sheaf/internal/testkit"
)

// A lock is free as soon as its holder closes it, though a program that is just being started has
// the file open until it runs.
func TestClosedLockIsFree(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		testkit.Must(t, err)
		return f
	}
	first, second := open(), open()
	defer second.Close()
	testkit.Must(t, files.TryLock(first))
	child, err := unix.Dup(int(first.Fd())) // as after a fork
	testkit.Must(t, err)
	defer unix.Close(child)
	if err := files.TryLock(second); err != unix.EWOULDBLOCK {
		t.Errorf("while it is held: %v", err)
	}
	testkit.Must(t, files.Held{File: first}.Close())
	testkit.Must(t, files.TryLock(second))
}
