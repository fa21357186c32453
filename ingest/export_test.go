package ingest

import (
	"os"

	"golang.org/x/sys/unix"
)

// Die gives up what the kernel takes from a process that is killed. The test makes sure that
// nothing is written afterwards. The files of the locks are replaced under their descriptors, not
// closed: goroutines of the dead process may still be about to use them.
func (i *Ingest) Die() {
	i.presence.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		panic(err)
	}
	defer null.Close()
	for _, f := range i.locks {
		if err := unix.Dup3(int(null.Fd()), int(f.Fd()), unix.O_CLOEXEC); err != nil {
			panic(err)
		}
	}
}
