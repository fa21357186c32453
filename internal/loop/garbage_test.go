package loop

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// The more is in use, the smaller a part of it may lie there as garbage.
func TestGarbageOf(t *testing.T) {
	room := GarbageOf(8<<20, 25, 200)
	for _, tt := range []struct {
		live uint64
		want int
	}{{0, 200}, {1 << 20, 200}, {8 << 20, 100}, {16 << 20, 50}, {1 << 30, 25}} {
		if got := room(tt.live, 0); got != tt.want {
			t.Errorf("beside %d in use: %d %%, want %d", tt.live, got, tt.want)
		}
	}
}

// A busy process has room for garbage; one at rest stays as small as without.
func TestGarbageWhileBusy(t *testing.T) {
	rule := GarbageOf(24<<20, 100, 400).WhileBusy()
	for _, tt := range []struct {
		live uint64
		took time.Duration
		want int
	}{{8 << 20, time.Second, 300}, {8 << 20, time.Second + 1, 100}, {48 << 20, 0, 100}, {1 << 20, 0, 400}, {1 << 20, time.Hour, 100}} {
		if got := rule(tt.live, tt.took); got != tt.want {
			t.Errorf("%d in use, %v after the collection before: %d %%, want %d", tt.live, tt.took, got, tt.want)
		}
	}
}

// GOGC follows what is in use until the end, and then is what it was before. The environment goes
// before.
func TestGarbageIsHeld(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(150)
	defer debug.SetGCPercent(before)
	percent := func() int {
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}
	stop := Garbage(func(live uint64, took time.Duration) int {
		if took < 0 || took > time.Minute {
			t.Errorf("a collection %v after the one before", took)
		}
		if live > 64<<20 {
			return 52 // of which the step is 50
		}
		return 300
	}).Hold()
	if percent() != 300 {
		t.Errorf("GOGC is %d at the beginning", percent())
	}
	held := make([]byte, 64<<20)
	testkit.Until(t, "GOGC follows what is in use", func() bool {
		runtime.GC()
		return percent() == 50
	})
	runtime.KeepAlive(held)
	stop()
	runtime.GC()
	if percent() != 150 {
		t.Errorf("GOGC %d stays", percent())
	}
	t.Setenv("GOGC", "77")
	if Garbage(func(uint64, time.Duration) int { return 99 }).Hold()(); percent() != 150 {
		t.Errorf("GOGC is %d, against the environment", percent())
	}
}
