package ingest

import (
	"os"

	"golang.org/x/sys/unix"
)

// Die lets go of what the kernel takes from a process that is killed. The test
// sees to it that nothing is written after. The gates' files are replaced under their
// descriptors, not closed: goroutines of the dead may still be about to use them.
func (i *Ingest) Die() {
	i.presence.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		panic(err)
	}
	defer null.Close()
	for _, f := range []*os.File{i.accepting.f, i.deciding.f} {
		if err := unix.Dup3(int(null.Fd()), int(f.Fd()), unix.O_CLOEXEC); err != nil {
			panic(err)
		}
	}
}
