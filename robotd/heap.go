package robotd

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sheaf/robotd/config"
	"sync/atomic"
)

// Bounds of the garbage that may lie beside what the heap holds, in percent of it.
const (
	leastGarbage = 25
	mostGarbage  = 200
)

// HoldMemory keeps the process small from now on: the heap grows by about memory.garbage bytes beyond
// what is in use before it is collected, however much that is, and the whole seldom
// beyond memory.limit. Go's own rule, as much garbage as there is in use, wastes processor
// on a robot of a hundred hosts and memory on one of ten thousand. It is for a process that is
// a robot and nothing else. GOGC and GOMEMLIMIT in the environment go before the settings. The
// returned function ends it and puts things back.
func HoldMemory(cfg config.Memory) (stop func()) {
	h := &heap{garbage: cfg.Garbage, limit: -1, percent: -1}
	if cfg.Limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		h.limit = debug.SetMemoryLimit(cfg.Limit)
	}
	if cfg.Garbage > 0 && os.Getenv("GOGC") == "" {
		h.percent = debug.SetGCPercent(100)
		h.adjust()
	}
	return h.stop
}

// heap follows what the process holds.
type heap struct {
	garbage int64
	over    atomic.Bool
	limit   int64 // as it was before; negative: untouched
	percent int
}

// adjust looks at what the last collection has left, and again after the next.
func (h *heap) adjust() {
	if h.over.Load() {
		return
	}
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	for i := range sample {
		if sample[i].Value.Kind() != metrics.KindUint64 {
			return // a runtime that no longer tells
		}
	}
	live, is := sample[0].Value.Uint64(), sample[1].Value.Uint64()
	if want := garbagePercent(h.garbage, live); want != int(is) {
		debug.SetGCPercent(want)
	}
	type sentinel struct{ _ [4]*heap } // not so small that the runtime puts it beside others
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

// garbagePercent is the GOGC with which so many bytes of garbage gather beside those in use.
func garbagePercent(garbage int64, live uint64) int {
	percent := 100 * uint64(garbage) / max(live, 1)
	percent = min(max(percent, leastGarbage), mostGarbage)
	const step = 5 // each change stops the world for a moment
	return int(percent / step * step)
}
