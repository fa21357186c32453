package wire_test

import (
	"testing"

	"sheaf/internal/wire"
)

func TestRoom(t *testing.T) {
	for _, c := range []struct{ decoded, stored, want int64 }{
		{0, 0, wire.Grace},
		{wire.Grace, 0, 0},
		{wire.Grace + 1, 0, -1},
		{wire.Grace + 200, 1, 0},
	} {
		if got := wire.ExpansionRoom(c.decoded, c.stored); got != c.want {
			t.Errorf("Room(%d, %d) = %d, want %d", c.decoded, c.stored, got, c.want)
		}
	}
	if (wire.Expansion{Ratio: 1 << 40}).Room(0, 1<<40) <= 0 {
		t.Error("the room of a large part overflows")
	}
}
