package robotd

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// Bounds of the garbage in the heap, in percent of the memory in use.
const (
	leastGarbage = 25
	mostGarbage  = 200
)

// garbage is how many unused bytes gather before a collection.
const garbage = 8 << 20

// HoldMemory keeps the process small. The heap grows by about 8 MiB beyond the memory in use before
// it is collected, and the whole process seldom beyond the limit in bytes; 0: no limit. Go's own
// rule, as much garbage as there is memory in use, wastes processor time on a robot of a hundred
// hosts and memory on one of ten thousand. GOGC and GOMEMLIMIT in the environment have priority
// over the settings. HoldMemory is for a process that is only a robot. The returned function ends
// it and restores what was set before.
func HoldMemory(limit int64) (stop func()) {
	h := &heap{limit: -1, percent: -1}
	if limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		h.limit = debug.SetMemoryLimit(limit)
	}
	if os.Getenv("GOGC") == "" {
		h.percent = debug.SetGCPercent(100)
		h.adjust()
	}
	return h.stop
}

// heap sets the garbage collector by the memory in use.
type heap struct {
	over    atomic.Bool
	limit   int64 // memory limit before; negative: it was not changed
	percent int   // GOGC before; negative: it was not changed
}

// adjust sets GOGC by what the last collection has left. It runs again after the next collection.
func (h *heap) adjust() {
	if h.over.Load() {
		return
	}
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	for i := range sample {
		if sample[i].Value.Kind() != metrics.KindUint64 {
			return // the runtime does not tell
		}
	}
	live, is := sample[0].Value.Uint64(), sample[1].Value.Uint64()
	if want := garbagePercent(live); want != int(is) {
		debug.SetGCPercent(want)
	}
	type sentinel struct{ _ [4]*heap } // large enough to have its own memory block
	runtime.AddCleanup(new(sentinel), (*heap).adjust, h)
}

func (h *heap) stop() {
	h.over.Store(true)
	if h.limit >= 0 {
		debug.SetMemoryLimit(h.limit)
	}
	if h.percent >= 0 {
		debug.SetGCPercent(h.percent)
	}
}

// garbagePercent returns the GOGC at which the collector runs whenever as many bytes of garbage as
// the constant garbage says have gathered beside the live bytes.
func garbagePercent(live uint64) int {
	percent := 100 * uint64(garbage) / max(live, 1)
	percent = min(max(percent, leastGarbage), mostGarbage)
	const step = 5 // each change stops the world for a moment
	return int(percent / step * step)
}
