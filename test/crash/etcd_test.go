package crash

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sheaf/internal/lease/etcdtest"
	"sheaf/internal/testkit"
)

// TestEtcdLeaderKilled runs two `sheaf serve` that publish and collect under leases of an etcd
// cluster of five. The cluster's leader is killed again and again, and once two members at a time.
// The test reports how long after each kill a new batch was public and a collection done. It kills
// three times, or in the long form for runTime.
func TestEtcdLeaderKilled(t *testing.T) {
	notShort(t)
	t.Parallel()
	cluster := etcdtest.Start(t, 5)
	p := newPair(t, testkit.Build(t, "sheaf/cmd/sheaf"), map[string]any{
		"lease.kind": "etcd", "lease.etcd.endpoints": strings.Join(cluster.Endpoints(), ","),
	})
	p.joinAll(byHTTP, byFTP)
	at := newStopwatch()
	consumers := p.consume(t)
	working, stop := context.WithCancel(t.Context())
	robots := p.workAtBoth(working, at)
	testkit.Eventually(t, "work begins", func() error { return at.reached("published", 3) })

	var kills []map[string]time.Duration
	for began := time.Now(); len(kills) < 3 || long() && time.Since(began) < runTime(t); {
		dead := []*etcdtest.Member{cluster.Leader(t)}
		at.restart()
		dead[0].Kill(t)
		if len(kills) == 1 { // a bare majority is left
			dead = append(dead, cluster.Leader(t))
			at.restart()
			dead[1].Kill(t)
		}
		testkit.Must(t, p.services[len(kills)%2].operate(http.MethodPost, "/v1/admin/gc", nil, nil))
		at.stop("collected")
		testkit.Eventually(t, "publishing goes on", func() error { return at.reachedSince("published") })
		kills = append(kills, at.since())
		for _, m := range dead {
			m.Start(t)()
		}
	}
	stop()
	robots.Wait()
	consumers()
	p.checkTwo(t)
	report(t, fmt.Sprintf("%d kills of the etcd leader", len(kills)), kills, "published", "collected")
}
