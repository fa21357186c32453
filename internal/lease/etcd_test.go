package lease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"sheaf/internal/lease"
	"sheaf/internal/lease/etcdtest"
	"sheaf/internal/testkit"
)

func TestMain(m *testing.M) {
	etcdtest.Main()
	testkit.InMemory(m)
}

// cluster is an etcd cluster whose members are killed and replaced.
type cluster struct {
	t *testing.T
	*etcdtest.Cluster
}

// TTLs of the tests' leases. longTTL is long enough for a busy machine not to lose a lease.
const (
	longTTL  = 5 * time.Second
	shortTTL = 2 * time.Second
)

// open returns the Etcd of one more process.
func (c *cluster) open(t *testing.T, ttl time.Duration) *lease.Etcd {
	t.Helper()
	e, err := lease.NewEtcd(lease.EtcdOptions{
		Client:  clientv3.Config{Endpoints: c.Endpoints(), AutoSyncInterval: time.Second},
		Options: lease.Options{TTL: ttl},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// TestEtcd takes a cluster through its life while clients contend. Members are killed, among them
// the leader, down to the bare majority and below it, and come back. In the long form there are
// five members instead of three; new members join as learners, and all first members are removed
// one by one.
func TestEtcd(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	c := &cluster{t, etcdtest.Start(t, testkit.Size(3, 5))}
	asked := func(name string) int {
		keys, err := c.Client.Get(t.Context(), "sheaf/queue/"+name+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		testkit.Must(t, err)
		return int(keys.Count)
	}
	suite(t, asked, func(t *testing.T) lease.Locker { return c.open(t, longTTL) })
	t.Run("lost", func(t *testing.T) { testEtcdLost(t, c) })
	t.Run("stale", func(t *testing.T) { testEtcdStale(t, c) })
	t.Run("members", func(t *testing.T) { testEtcdMembers(t, c) })
}

// testEtcdLost: a holder learns that the cluster has ended its lease.
func testEtcdLost(t *testing.T, c *cluster) {
	err := c.open(t, longTTL).Do(t.Context(), "lost", func(ctx context.Context, _ int64) error {
		keys, err := c.Client.Get(ctx, "sheaf/queue/lost/", clientv3.WithPrefix())
		if err != nil || len(keys.Kvs) != 1 {
			t.Fatalf("queue %v, %v", keys, err)
		}
		_, err = c.Client.Revoke(ctx, clientv3.LeaseID(keys.Kvs[0].Lease))
		testkit.Must(t, err)
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, lease.ErrLost) {
			t.Errorf("the context ended with cause %v", cause)
		}
		return ctx.Err()
	})
	if !errors.Is(err, lease.ErrLost) {
		t.Errorf("got %v", err)
	}
}

// testEtcdStale: a holder that is cut off from the cluster and works on loses its place, and the
// guarded resource refuses its writes.
func testEtcdStale(t *testing.T, c *cluster) {
	j := &judge{t: t}
	cut := c.open(t, shortTTL)
	err := cut.Do(t.Context(), "publish", func(ctx context.Context, token int64) error {
		testkit.Must(t, j.write("cut off", token))
		testkit.Must(t, cut.Close())
		j.contend(t.Context(), "next", c.open(t, shortTTL), 1)
		if err := j.write("cut off", token); !errors.Is(err, errRefused) {
			t.Errorf("a write of the stale holder returned %v", err)
		}
		if !errors.Is(context.Cause(ctx), lease.ErrLost) {
			t.Errorf("its context: %v", context.Cause(ctx))
		}
		return ctx.Err()
	})
	if !errors.Is(err, lease.ErrLost) {
		t.Errorf("got %v", err)
	}
}

// testEtcdMembers kills members. In the long form it also replaces all of them.
func testEtcdMembers(t *testing.T, c *cluster) {
	j := &judge{t: t}
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	const contenders = 4
	for n := range contenders {
		l := c.open(t, shortTTL)
		clients.Go(func() { j.contend(ctx, fmt.Sprint("client ", n), l, 0) })
	}
	size := len(c.Members)
	j.await(2*contenders, fmt.Sprint(size, " members"))

	var dead []*etcdtest.Member
	for n := size - 1; n > size/2; n-- {
		leader := c.Leader(t)
		killed := time.Now()
		leader.Kill(t)
		dead = append(dead, leader)
		j.await(2*contenders, fmt.Sprint("leader killed, left ", n))
		t.Logf("leader killed, %d of %d members left: next holder after %.2f s", n, size, j.after(killed).at.Sub(killed).Seconds())
	}

	last, halted := c.Leader(t), time.Now()
	last.Kill(t)
	time.Sleep(500 * time.Millisecond) // for answers that were on their way
	before := j.count()
	time.Sleep(time.Second)
	if n := j.count() - before; n > 0 {
		t.Errorf("%d turns without a majority of %d members", n, size)
	}
	back := time.Now()
	last.Start(t)()
	j.await(2*contenders, "a majority is back")
	idle := j.after(back).at.Sub(halted)
	t.Logf("majority back: next holder %.2f s after the member's start", j.after(back).at.Sub(back).Seconds())

	if testkit.Full() { // etcd accepts membership changes only 5 seconds apart
		first := slices.Clone(c.Members)
		for n, m := range dead {
			c.remove(m)
			c.join(etcdtest.NewMember(t, fmt.Sprint("new", n)))
			j.await(contenders, "a dead member replaced")
		}
		for _, m := range first {
			if !slices.Contains(dead, m) {
				c.remove(m)
				j.await(contenders, m.Name+" removed")
			}
		}
	}
	// The tokens show the judge that turns follow the order of creation. What remains is how long a
	// client takes to ask: its member may be the one that was killed.
	longest := j.longest()
	t.Logf("%d turns in all; the longest that one client was without: %.1f s, with %.1f s of no majority", j.count(), longest.Seconds(), idle.Seconds())
	if longest > idle+time.Minute {
		t.Errorf("one client had no turn for %v", longest)
	}
}

// repeat calls f until it succeeds: the cluster may be without a leader for a moment.
func (c *cluster) repeat(what string, f func(context.Context) error) {
	c.t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(c.t.Context(), 3*time.Second)
		err = f(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	c.t.Fatalf("%s: %v", what, err)
}

// id returns the ID of the member with a peer URL, or 0.
func (c *cluster) id(ctx context.Context, peer string) (uint64, string, error) {
	l, err := c.Client.MemberList(ctx)
	if err != nil {
		return 0, "", err
	}
	var id uint64
	var names []string
	for _, m := range l.Members {
		name := m.Name
		for _, k := range c.Members {
			if slices.Contains(m.PeerURLs, k.Peer) {
				name = k.Name
			}
		}
		names = append(names, name+"="+m.PeerURLs[0])
		if slices.Contains(m.PeerURLs, peer) {
			id = m.ID
		}
	}
	return id, strings.Join(names, ","), nil
}

func (c *cluster) remove(m *etcdtest.Member) {
	c.t.Helper()
	c.repeat("remove "+m.Name, func(ctx context.Context) error {
		id, _, err := c.id(ctx, m.Peer)
		if err != nil || id == 0 {
			return err
		}
		_, err = c.Client.MemberRemove(ctx, id)
		return err
	})
	c.Members = slices.DeleteFunc(c.Members, func(k *etcdtest.Member) bool { return k == m })
}

// join adds a member as a learner, and promotes it once it has caught up.
func (c *cluster) join(m *etcdtest.Member) {
	c.t.Helper()
	c.Members = append(c.Members, m)
	var id uint64
	c.repeat("add "+m.Name, func(ctx context.Context) (err error) {
		if id, m.Cluster, err = c.id(ctx, m.Peer); err != nil || id != 0 {
			return err
		}
		if _, err = c.Client.MemberAddAsLearner(ctx, []string{m.Peer}); err != nil {
			return err
		}
		id, m.Cluster, err = c.id(ctx, m.Peer)
		return err
	})
	m.Existing = true
	m.Start(c.t)()
	c.repeat("promote "+m.Name, func(ctx context.Context) error {
		_, err := c.Client.MemberPromote(ctx, id)
		return err
	})
}
