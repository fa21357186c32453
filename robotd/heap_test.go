package robotd

import (
	"runtime"
	"runtime/debug"
	"testing"

	"sheaf/internal/testkit"
)

// The more is in use, the smaller a part of it may lie there as garbage; and what was set
// before is set again at the end.
func TestHoldMemory(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetGCPercent(150)
	defer debug.SetGCPercent(before)
	limit := debug.SetMemoryLimit(-1)
	stop := HoldMemory(1 << 40)
	percent := func() int {
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}
	held := make([]byte, 256<<20)
	testkit.Until(t, "with 256 MiB in use GOGC is the least", func() bool {
		runtime.GC()
		return percent() == leastGarbage
	})
	runtime.KeepAlive(held)
	if debug.SetMemoryLimit(-1) != 1<<40 {
		t.Error("the limit is not set")
	}
	stop()
	if percent() != 150 || debug.SetMemoryLimit(-1) != limit {
		t.Errorf("GOGC %d and limit %d stay", percent(), debug.SetMemoryLimit(-1))
	}
}
