package lease_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sheaf/internal/lease"
	"sheaf/internal/lease/quorum"
	"sheaf/internal/testkit"
)

var quorumSecret = []byte("a secret of the servers of a test")

// quorumServers starts servers, and returns their addresses and lockers.
func quorumServers(t *testing.T, n int, ttl time.Duration) (members []string, servers []*quorum.Locker) {
	t.Helper()
	var listeners []net.Listener
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		testkit.Must(t, err)
		listeners, members = append(listeners, l), append(members, l.Addr().String())
	}
	for i, l := range listeners {
		servers = append(servers, openQuorum(t, quorum.Options{
			Options: lease.Options{TTL: ttl}, Members: members, Listener: l, Address: members[i], File: filepath.Join(t.TempDir(), "leases.json"),
		}))
	}
	return members, servers
}

func openQuorum(t *testing.T, opt quorum.Options) *quorum.Locker {
	t.Helper()
	opt.Secret = quorumSecret
	l, err := quorum.Open(opt)
	testkit.Must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// TestQuorum: servers that are the service's own processes keep what every Locker promises.
func TestQuorum(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const ttl = 2 * time.Second
	members, servers := quorumServers(t, 3, ttl)
	client := func(t *testing.T) lease.Locker {
		return openQuorum(t, quorum.Options{Options: lease.Options{TTL: ttl}, Members: members})
	}
	suite(t, servers[0].Asked, client)
	t.Run("lost", func(t *testing.T) { testQuorumLost(t, members, servers, ttl) })
}

// testQuorumLost: one server less does no harm. With two less the holder learns that its lease is
// lost, and operators that there is no majority.
func testQuorumLost(t *testing.T, members []string, servers []*quorum.Locker, ttl time.Duration) {
	client := openQuorum(t, quorum.Options{Options: lease.Options{TTL: ttl}, Members: members})
	testkit.Must(t, servers[2].Close())
	err := client.Do(t.Context(), "lost", func(ctx context.Context, _ int64) error {
		testkit.Must(t, client.Check(ctx))
		testkit.Must(t, servers[1].Close())
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, lease.ErrLost) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := client.Check(ctx); !errors.Is(err, quorum.ErrNoQuorum) {
		t.Errorf("with one server of three: %v", err)
	}
	err = client.Change(t.Context(), func(now []string) ([]string, error) { return append(now, "127.0.0.1:1"), nil })
	if !errors.Is(err, quorum.ErrNoQuorum) {
		t.Errorf("a change with one server of three ends with %v", err)
	}
}

// Servers join and leave while leases are held and granted, and tokens go on rising.
func TestQuorumChanges(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const ttl = 2 * time.Second
	members, _ := quorumServers(t, 2, ttl)
	open := func() *quorum.Locker {
		return openQuorum(t, quorum.Options{Options: lease.Options{TTL: ttl}, Members: members})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	late := l.Addr().String()
	openQuorum(t, quorum.Options{Options: lease.Options{TTL: ttl}, Members: members, Listener: l, Address: late, File: filepath.Join(t.TempDir(), "leases.json")})

	j := &judge{t: t, random: testkit.Random(t)}
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	for n := range 2 {
		client := open()
		working.Go(func() {
			for ctx.Err() == nil {
				j.contend(t.Context(), fmt.Sprint("client ", n), client, 1)
			}
		})
	}
	operator := open()
	testkit.Must(t, operator.Change(t.Context(), func(now []string) ([]string, error) { return append(now, late), nil }))
	testkit.Must(t, operator.Change(t.Context(), func([]string) ([]string, error) { return []string{members[1], late}, nil }))
	before := j.count()
	testkit.Until(t, "turns go on", func() bool { return j.count() > before+3 })
	stop()
	working.Wait()

	// One that has heard of no change learns of it; one that was removed grants nothing.
	all, err := open().Members(t.Context())
	if err != nil || len(all) != 2 || all[0].Address == members[0] || all[1].Address == members[0] {
		t.Errorf("%+v, %v", all, err)
	}
}
