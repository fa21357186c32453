package receive

import (
	"os"
	"path/filepath"
	"testing"
)

// Processes that share the buffers do not come by each other's uploads; one that
// starts after another has died takes up that one's.
func TestSharedBuffers(t *testing.T) {
	buffers := t.TempDir()
	var names []string
	var alive []*os.File // nothing else keeps the locks from being collected
	own := func() (die func() error) {
		t.Helper()
		dir, lock, err := ownDir(buffers)
		if err != nil {
			t.Fatal(err)
		}
		alive = append(alive, lock)
		names = append(names, filepath.Base(dir))
		return lock.Close
	}
	own()
	die := own()
	own()
	if err := die(); err != nil {
		t.Fatal(err)
	}
	own()
	defer func() {
		for _, lock := range alive {
			lock.Close() // one is closed already
		}
	}()
	want := []string{"receive", "receive-1", "receive-2", "receive-1"}
	for n := range want {
		if names[n] != want[n] {
			t.Errorf("process %d has %s, want %s", n, names[n], want[n])
		}
	}
}
