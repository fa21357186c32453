package receive

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"sheaf/ingest/inbox"
	"sheaf/internal/wire"
)

// A robot has one large manifest under way at a time, and all robots few.
func TestLargeManifestsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLargeOnes()
		first, err := l.enter(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.enter(t.Context(), "a"); !errors.Is(err, errBusy) {
			t.Errorf("a second one of the same robot: %v, want %v", err, errBusy)
		}
		second, err := l.enter(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := l.enter(ctx, "c"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with no place free: %v", err)
		}
		first()
		third, err := l.enter(t.Context(), "c")
		if err != nil {
			t.Errorf("with a place free again: %v", err)
		}
		second()
		third()
		again, err := l.enter(t.Context(), "a")
		if err != nil {
			t.Errorf("after its first is done with: %v", err)
		}
		again()
	})
}

// A robot that begins uploads and never ends them is stopped before they fill the disk with files.
func TestUploadsOfOneRobot(t *testing.T) {
	us := &uploads{
		dir: t.TempDir(), log: slog.New(slog.DiscardHandler), boundary: func(string, string) {}, byName: make(map[string]*upload),
		guard: inbox.NewGuard(nil, inbox.Marks{}, time.Minute, func() (int64, error) { return 0, nil }),
	}
	for n := range maxUploads {
		u := &upload{uploads: us, name: strconv.Itoa(n), robot: "a"}
		us.byName[u.name] = u
	}
	us.byName["0"].mu.Lock() // it is being written; nobody waits for its disk
	begin := func(robot string) error {
		_, err := us.create(status{Batch: wire.NewBatchID(robot, time.Now(), 1), Robot: robot, Protocol: overHTTP, Size: 1})
		return err
	}
	var full *inbox.Full
	if err := begin("a"); !errors.As(err, &full) {
		t.Errorf("one more upload: %v, want that it must wait", err)
	}
	if err := begin("b"); err != nil {
		t.Errorf("another robot's: %v", err)
	}
	var told []string
	r := &Receiver{uploads: us, opt: Options{Refused: func(_ context.Context, robot, why string) { told = append(told, robot+": "+why) }}}
	for _, err := range []error{begin("a"), errBusy, nil, &os.PathError{Op: "write", Path: "x", Err: unix.EDQUOT}, errTooSlow} {
		r.turnedAway(t.Context(), "a", err)
	}
	if len(told) != 3 || !strings.Contains(told[0], "a: robot a has 1000 uploads") || !strings.Contains(told[1], "one after the other") || !strings.Contains(told[2], "the disk is full") {
		t.Errorf("the manager is told %q", told)
	}
}
