package settings_test

import (
	"testing"

	"sheaf/internal/limits"
)

func TestRoom(t *testing.T) {
	for _, c := range []struct{ decoded, stored, want int64 }{
		{0, 0, limits.Grace},
		{limits.Grace, 0, 0},
		{limits.Grace + 1, 0, -1},
		{limits.Grace + 200, 1, 0},
	} {
		if got := limits.Room(c.decoded, c.stored); got != c.want {
			t.Errorf("Room(%d, %d) = %d, want %d", c.decoded, c.stored, got, c.want)
		}
	}
	if (limits.Expansion{Ratio: 1 << 40}).Room(0, 1<<40) <= 0 {
		t.Error("the room of a large part overflows")
	}
}
