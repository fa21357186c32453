package loop

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// Garbage says how much garbage may gather before Go collects it. It returns the GOGC to set after
// a collection, in percent of the live bytes that the collection has left. took is the time since
// the collection before.
type Garbage func(live uint64, took time.Duration) int

// Hold sets GOGC in this process as g says, unless GOGC is in the environment. stop restores the
// GOGC from before.
func (g Garbage) Hold() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	h := &holder{percent: g, before: debug.SetGCPercent(100), last: time.Now()}
	h.adjust()
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.over = true
		debug.SetGCPercent(h.before)
	}
}

type holder struct {
	percent Garbage
	before  int // GOGC before Hold

	mu   sync.Mutex // guards what follows, and GOGC
	over bool
	last time.Time // of the last collection
}

// adjust sets GOGC by what the last collection has left. It runs again after the next collection.
func (h *holder) adjust() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return
	}
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	for i := range sample {
		if sample[i].Value.Kind() != metrics.KindUint64 {
			return // the runtime does not tell
		}
	}
	now := time.Now()
	const step = 5 // each change stops the world for a moment
	want := h.percent(sample[0].Value.Uint64(), now.Sub(h.last)) / step * step
	if h.last = now; want != int(sample[1].Value.Uint64()) {
		debug.SetGCPercent(want)
	}
	type sentinel struct{ _ [4]*holder } // large enough to have its own memory block
	runtime.AddCleanup(new(sentinel), (*holder).adjust, h)
}

// GarbageOf returns a Garbage that lets so many bytes gather, within the bounds of GOGC. Go's own
// rule lets as many bytes gather as are in use. So it collects too often if few bytes are in use,
// and too seldom if many are.
func GarbageOf(bytes uint64, least, most int) Garbage {
	return func(live uint64, _ time.Duration) int {
		return int(min(max(100*bytes/max(live, 1), uint64(least)), uint64(most)))
	}
}

// WhileBusy returns a Garbage that is g after a collection within a second of the one before. After
// a longer time it is Go's own rule, so that a process at rest stays small.
func (g Garbage) WhileBusy() Garbage {
	return func(live uint64, took time.Duration) int {
		if took > time.Second {
			return 100
		}
		return g(live, took)
	}
}
