package ftp

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/stream"
	"sheaf/internal/testkit"
)

// Between two looks at its account's limits, a client gets what it takes in a quarter of a second,
// but at least 1 MiB and at most 16. A step is at most twice the one before.
func TestStepsFollowTheClientsSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		take := inSteps(func(_ context.Context, n int64) (int64, error) { return n, nil })
		for i, c := range []struct {
			left, speed, want int64 // MiB; speed in MiB a second, of the step; 0: without limit
		}{
			{1000, 0, 1}, {1000, 0, 2}, {1000, 0, 4}, {1000, 0, 8}, {1000, 0, 16}, {1000, 20, 16},
			{1000, 20, 5}, {1000, 20, 5}, {1000, 2, 5}, {1000, 2, 1}, {1000, 0, 1}, {1000, 0, 2},
			{1, 0, 1}, {1000, 0, 2}, {1000, 0, 4}, // a short part says little of the speed
		} {
			n, err := take(t.Context(), c.left<<20)
			if err != nil || n != c.want<<20 {
				t.Fatalf("step %d: %d bytes, %v; want %d MiB", i, n, err, c.want)
			}
			if c.speed > 0 {
				time.Sleep(time.Duration(n) * time.Second / time.Duration(c.speed<<20))
			}
		}
	})
}

// A client that takes nothing more of a large step cannot so outlast its account: whether it may go
// on is asked during the step, long before the client counts as stalled.
func TestLimitsHoldDuringAStep(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(name, nil, 0o600))
	testkit.Must(t, os.Truncate(name, 1<<30))
	f, err := os.Open(name)
	testkit.Must(t, err)
	defer f.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer l.Close()
	client := testkit.DialSmall(t, l.Addr().String())
	defer client.Close()
	server, err := l.Accept()
	testkit.Must(t, err)
	defer server.Close()
	gone := errors.New("the account is gone")
	c := &dataConn{Conn: server, tcp: server.(*net.TCPConn), timeout: time.Hour, Plain: true}
	_, err = c.SendExtents(t.Context(), &wholeFile{localFile{f, 0, 1 << 30}}, func(_ context.Context, n int64) (int64, error) {
		if n == 0 {
			return 0, gone
		}
		return n, nil
	})
	if failed, ok := errors.AsType[*stream.SourceError](err); !ok || failed.Err != gone {
		t.Errorf("the transfer ended with %v, want %v", err, gone)
	}
}
