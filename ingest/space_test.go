package ingest_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sheaf/ingest/inbox"
	"sheaf/internal/files"
	"sheaf/internal/testkit"
)

// disk is a file system of 1000 bytes and as many files.
type disk struct{ used, files int64 }

func (d *disk) space() (files.Room, error) {
	return files.Room{Bytes: 1000, Free: 1000 - d.used, Files: 1000, FreeFiles: 1000 - d.files}, nil
}

func wantFull(t *testing.T, err error, draining bool) {
	t.Helper()
	var full *inbox.Full
	if !errors.As(err, &full) || full.Draining != draining || full.RetryAfter < time.Minute || full.RetryAfter > 3*time.Minute {
		t.Fatalf("got %v (%+v), want to be refused, draining %v", err, full, draining)
	}
}

// wantNever wants a refusal that no waiting helps against, and that does not make the others wait.
func wantNever(t *testing.T, err error) {
	t.Helper()
	var full *inbox.Full
	if !errors.As(err, &full) || !full.Never || full.Draining || full.RetryAfter != 0 {
		t.Fatalf("got %v (%+v), want a batch too large for the disk", err, full)
	}
}

func TestGuard(t *testing.T) {
	buffers, objects := &disk{}, &disk{}
	unsplit := int64(0)
	guard := func(disks ...inbox.Disk) *inbox.Guard {
		*buffers, *objects, unsplit = disk{}, disk{}, 0
		return inbox.NewGuard(disks, inbox.Marks{}, time.Minute, func() (int64, error) { return unsplit, nil })
	}
	one := inbox.Disk{Name: "one", Space: buffers.space, Buffers: true}
	both := inbox.Disk{Name: "both", Space: buffers.space, Buffers: true, Store: true}
	other := inbox.Disk{Name: "other", Space: objects.space, Store: true}
	batch := func(n int64) inbox.SpaceClaim { return inbox.SpaceClaim{Coming: n, Whole: n} }

	t.Run("stops and goes on where it is told to", func(t *testing.T) {
		*buffers = disk{}
		g := inbox.NewGuard([]inbox.Disk{one}, inbox.Marks{Full: 0.5, Drained: 0.4}, time.Minute, func() (int64, error) { return 0, nil })
		testkit.Must(t, g.Reserve("a", batch(450)))
		wantFull(t, g.Reserve("b", batch(51)), false)
		wantFull(t, g.Reserve("c", batch(1)), true)
		g.Release("a")
		testkit.Must(t, g.Reserve("b", batch(51)))
	})

	t.Run("stops at 85 and goes on at 75", func(t *testing.T) {
		g := guard(one)
		testkit.Must(t, g.Reserve("a", batch(400)))
		testkit.Must(t, g.Reserve("b", batch(400)))
		wantFull(t, g.Reserve("c", batch(51)), false)
		testkit.Must(t, g.Extend("a", batch(450))) // what was begun goes on
		wantFull(t, g.Extend("a", batch(451)), true)
		wantFull(t, g.Reserve("c", batch(1)), true)
		g.Release("b")
		testkit.Must(t, g.Reserve("c", batch(1))) // 450 are left
		g.Release("a")
		g.Release("c")
		buffers.used = 760
		wantFull(t, g.Reserve("c", batch(100)), false)
		buffers.used = 751
		wantFull(t, g.Reserve("c", batch(1)), true)
		buffers.used = 750
		testkit.Must(t, g.Reserve("c", batch(1)))
	})
	t.Run("one too large does not stop the others", func(t *testing.T) {
		g := guard(one)
		wantNever(t, g.Reserve("a", batch(851)))
		wantNever(t, g.Extend("a", inbox.SpaceClaim{Coming: 1, Whole: 851})) // of unknown size, and almost here
		testkit.Must(t, g.Reserve("b", batch(850)))
		g.Release("b")
		buffers.used = 10
		wantNever(t, g.Reserve("c", batch(math.MaxInt64))) // with what is there it is no small number
	})
	t.Run("the store's copy counts", func(t *testing.T) {
		g := guard(both)
		wantNever(t, g.Reserve("a", batch(426)))
		testkit.Must(t, g.Reserve("a", batch(425)))
		g.Release("a") // came whole: on disk, and to be copied
		buffers.used, unsplit = 400, 400
		wantFull(t, g.Reserve("b", batch(26)), false)
		buffers.used, unsplit = 800, 0 // copied
		wantFull(t, g.Reserve("b", batch(20)), true)
		buffers.used = 400 // collected
		testkit.Must(t, g.Reserve("b", inbox.SpaceClaim{Coming: 100, Whole: 300}))
	})
	t.Run("a store on a disk of its own", func(t *testing.T) {
		g := guard(one, other)
		objects.used, unsplit = 500, 200
		wantFull(t, g.Reserve("a", inbox.SpaceClaim{Coming: 10, Whole: 151}), false)
		testkit.Must(t, g.Reserve("a", inbox.SpaceClaim{Coming: 10, Whole: 150}))
	})
	t.Run("files", func(t *testing.T) {
		g := guard(one)
		buffers.files = 851
		wantFull(t, g.Reserve("a", batch(1)), false)
		buffers.files = 760
		wantFull(t, g.Reserve("a", batch(1)), true)
		buffers.files = 740
		testkit.Must(t, g.Reserve("a", batch(1)))
	})
	t.Run("full all the same", func(t *testing.T) {
		g := guard(one)
		wantFull(t, g.NoSpace(fmt.Errorf("write: %w", unix.ENOSPC)), true)
		if err := errors.New("another"); g.NoSpace(err) != err {
			t.Error("another error became a full disk")
		}
	})
}

// What one robot announces leaves a quarter of the room to the others, and stops nobody.
func TestOneRobotsShareOfADisk(t *testing.T) {
	room := &disk{}
	g := inbox.NewGuard([]inbox.Disk{{Name: "one", Space: room.space, Buffers: true}}, inbox.Marks{}, time.Minute, func() (int64, error) { return 0, nil })
	of := func(robot string, n int64) inbox.SpaceClaim {
		return inbox.SpaceClaim{Coming: n, Whole: n, Owner: robot}
	}
	wantNever(t, g.Reserve("a1", of("a", 700)))
	testkit.Must(t, g.Reserve("a1", of("a", 600)))
	wantFull(t, g.Reserve("a2", of("a", 100)), false)
	testkit.Must(t, g.Reserve("b1", of("b", 150)))
	testkit.Must(t, g.Reserve("c1", of("c", 50)))
	testkit.Must(t, g.Extend("a1", of("a", 610))) // what has begun goes on
}
