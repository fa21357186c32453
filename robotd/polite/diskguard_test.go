package polite

import (
	"testing"
)

func TestGuard(t *testing.T) {
	var disk Disk
	var spool, open int64
	g := NewGuard(GuardOptions{
		Free: 1000, Spool: 400,
		Disk: func() (Disk, error) { return disk, nil }, Held: func() (int64, int64, error) { return spool, open, nil },
	})
	for i, step := range []struct {
		disk        Disk
		open, spool int64
		short       bool
	}{
		{Disk{5000, -1}, 0, 0, false},
		{Disk{1000, -1}, 0, 0, false},
		{Disk{999, -1}, 0, 0, true},
		{Disk{1249, -1}, 0, 0, true}, // a quarter more must be free first
		{Disk{1250, -1}, 0, 0, false},
		{Disk{1250, -1}, 300, 0, true}, // a batch would use the space to keep free
		{Disk{1550, -1}, 300, 0, false},
		{Disk{5000, -1}, 100, 300, false},
		{Disk{5000, -1}, 100, 301, true},
		{Disk{5000, -1}, 0, 301, true},
		{Disk{5000, -1}, 0, 300, false},
		{Disk{5000, keepFiles - 1}, 0, 0, true},
		{Disk{5000, keepFiles}, 0, 0, true},
		{Disk{5000, keepFiles * 2}, 0, 0, false},
	} {
		before := g.Short() != ""
		disk, open, spool = step.disk, step.open, step.spool
		if err := g.Look(); err != nil {
			t.Fatal(err)
		}
		if (g.Short() != "") != step.short {
			t.Errorf("step %d: %+v: Short = %q", i, step, g.Short())
		}
		select {
		case <-g.turns:
			if before == step.short {
				t.Errorf("step %d: turns has a value although Short has not changed", i)
			}
		default:
			if before != step.short {
				t.Errorf("step %d: turns has no value although Short has changed", i)
			}
		}
	}
	g.Full()
	if g.Short() == "" {
		t.Error("after Full nothing is short")
	}
	disk = Disk{5000, -1}
	if err := g.Look(); err != nil || g.Short() != "" {
		t.Errorf("a disk with room is short: %q, %v", g.Short(), err)
	}
}

// Between looks the guard counts the bytes written.
func TestWrote(t *testing.T) {
	looks := 0
	g := NewGuard(GuardOptions{Free: 16_000, Spool: 32_000, Disk: func() (Disk, error) {
		looks++
		return Disk{1 << 30, -1}, nil
	}, Held: func() (int64, int64, error) { return 0, 0, nil }})
	for range 100 {
		if err := g.Wrote(100); err != nil {
			t.Fatal(err)
		}
	}
	if looks != 10 {
		t.Errorf("%d looks for 10,000 bytes, want one for 1,000", looks)
	}
}

func TestNoBounds(t *testing.T) {
	g := NewGuard(GuardOptions{Disk: func() (Disk, error) { return Disk{}, nil }, Held: func() (int64, int64, error) { return 9, 9, nil }})
	if err := g.Look(); err != nil || g.Short() != "" {
		t.Errorf("a guard without bounds says %q, %v", g.Short(), err)
	}
}
