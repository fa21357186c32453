package robotd

import (
	"os"
	"runtime/debug"

	"sheaf/internal/loop"
)

// Bounds of the garbage in the heap, in percent of the memory in use.
const (
	leastGarbage = 25
	mostGarbage  = 200
)

// garbageBytes is how many unused bytes gather before a collection.
const garbageBytes = 8 << 20

// HoldMemory keeps the process small. The heap grows by about 8 MiB beyond the memory in use before
// it is collected, and the whole process seldom beyond the limit in bytes; 0: no limit. Go's own
// rule wastes processor time on a robot of a hundred hosts and memory on one of ten thousand. GOGC
// and GOMEMLIMIT in the environment have priority over the settings. HoldMemory is for a process
// that is only a robot. The returned function ends it and restores what was set before.
func HoldMemory(limit int64) (stop func()) {
	before := int64(-1) // it was not changed
	if limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		before = debug.SetMemoryLimit(limit)
	}
	end := loop.GarbageOf(garbageBytes, leastGarbage, mostGarbage).Hold()
	return func() {
		if end(); before >= 0 {
			debug.SetMemoryLimit(before)
		}
	}
}
