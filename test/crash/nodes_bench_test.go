package crash

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/archive/store/storetest"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
)

// BenchmarkNodes measures how much 1, 2 and 3 nodes together take in and publish, and how much they
// send to readers. They share a PostgreSQL and a versitygw and nothing else. Each node may use a
// quarter of a core, or the share in SHEAF_BENCH_SHARE, by a cgroup; everything else is not
// limited. Run it with -benchtime 1x.
func BenchmarkNodes(b *testing.B) {
	for n := 1; n <= 3; n++ {
		b.Run(fmt.Sprintf("%d", n), func(b *testing.B) {
			for range b.N {
				c := newCluster(b, n)
				c.measureIngest(b)
				c.measureServe(b)
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// cluster is a manager, and nodes of which each takes in, publishes and serves with a share of a
// core.
type cluster struct {
	*installation // the manager
	nodes         []*installation
	robots        []*robot
}

const (
	clusterRobots  = 6
	clusterBatches = 4  // of each robot
	clusterHosts   = 10 // of each robot
	clusterPages   = 12 // of a host in a batch
	clusterPage    = 24 << 10
)

func newCluster(b *testing.B, n int) *cluster {
	s3 := storetest.StartVersity(b).Options(b)
	c := &cluster{installation: newInstallation(b, "")}
	maps.Copy(c.settings, map[string]any{
		"store.kind": "s3", "store.endpoint": s3.Endpoint, "store.bucket": s3.Bucket, "store.access_key": s3.AccessKey, "store.secret_key": s3.SecretKey,
		"database.url": dbtest.Postgres(b), "uploads.accepted": "store", "database.seal": strings.Repeat("5e", 32), "poll": "1s", "store.scrub.every": "0",
	})
	c.run(b, "manager", 0)
	for range n {
		h := newInstallation(b, "")
		own := h.settings
		h.settings = maps.Clone(c.settings)
		for _, key := range []string{"data", "http.listen", "download.listen", "drop.listen"} {
			h.settings[key] = own[key]
		}
		h.run(b, "ingest,serve", share(b))
		c.nodes = append(c.nodes, h)
	}
	for r := range clusterRobots {
		c.robots = append(c.robots, c.join(fmt.Sprintf("robot%d", r)))
	}
	for _, r := range c.robots {
		c.add(r.Name, clusterHosts)
	}
	for _, r := range c.robots {
		c.fetchList(r)
	}
	return c
}

// run starts the program with some roles, and gives it a share of a core; 0: it is not limited.
func (h *installation) run(b *testing.B, roles string, share float64) {
	h.settings["roles"] = roles
	life := testkit.Start(b, h.log, exec.Command(testkit.Build(b, "sheaf/cmd/sheaf"), append([]string{"serve"}, h.flags()...)...))
	life.Ready(b, func() error {
		resp, err := http.Get(h.url() + "/healthz")
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("/healthz: %s", resp.Status)
		}
		return nil
	})
	if roles == "manager" {
		token, err := service.ReadToken(h.data)
		testkit.Must(b, err)
		h.process = &process{hello: hello{Token: token}}
		testkit.Must(b, h.operate(http.MethodGet, api.PathAdminRobots, nil, nil))
	}
	if share > 0 {
		limit(b, life, share)
	}
}

// share is the share of a core that each node may use.
func share(b *testing.B) float64 {
	if text := os.Getenv("SHEAF_BENCH_SHARE"); text != "" {
		share, err := strconv.ParseFloat(text, 64)
		testkit.Must(b, err)
		return share
	}
	return 0.25
}

// limit limits a process to a share of a core by a cgroup of its own, of version 1 or 2.
func limit(b *testing.B, life *testkit.Process, share float64) {
	const period = 100_000 // µs
	root, file, text := "/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", fmt.Sprint(int(share*period))
	if _, err := os.Stat(root); err != nil {
		root, file, text = "/sys/fs/cgroup", "cpu.max", fmt.Sprint(int(share*period), " ", period)
	}
	pid := life.Process.Pid
	dir := filepath.Join(root, fmt.Sprint("sheaf-bench-", pid))
	if err := os.Mkdir(dir, 0o755); err != nil {
		b.Skip("wants cgroups that it may write to: ", err)
	}
	b.Cleanup(func() {
		life.Kill()
		testkit.Eventually(b, "the cgroup is empty", func() error { return os.Remove(dir) })
	})
	testkit.Must(b, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	testkit.Must(b, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(fmt.Sprint(pid)), 0o644))
}

// measureIngest sends all robots' batches, evenly to the nodes, until they are published.
func (c *cluster) measureIngest(b *testing.B) {
	var sending sync.WaitGroup
	total := 0
	spools := make([]*spool, len(c.robots))
	for i, r := range c.robots {
		spools[i] = newSpool(b)
		for n := range clusterBatches {
			batch := r.make(b, int64(n+1), clusterPages, clusterPage, r.hosts...)
			total += len(batch.Data)
			testkit.Must(b, spools[i].add(batch))
		}
	}
	began := time.Now()
	for i, r := range c.robots {
		node := c.nodes[i%len(c.nodes)]
		sending.Go(func() {
			if err := node.uploader(r, spools[i], byHTTP).Drain(b.Context()); err != nil {
				b.Errorf("robot %s: %v", r.Name, err)
			}
		})
	}
	sending.Wait()
	took := time.Since(began)
	for _, s := range spools {
		if len(s.published) != clusterBatches {
			b.Fatalf("%d of %d batches are published", len(s.published), clusterBatches)
		}
	}
	b.ReportMetric(float64(total)/1e6/took.Seconds(), "MB/s-published")
}

// measureServe reads each host's archive from each node, with four readers at a node.
func (c *cluster) measureServe(b *testing.B) {
	const readers = 4
	var reading sync.WaitGroup
	var mu sync.Mutex
	total := int64(0)
	began := time.Now()
	for _, node := range c.nodes {
		for n := range readers {
			reading.Go(func() {
				for i := n; i < len(c.robots); i += readers {
					for _, host := range c.robots[i].hosts {
						got, err := read(node.url() + "/a/" + host + ".tar.gz")
						if err != nil {
							b.Error(err)
							return
						}
						mu.Lock()
						total += got
						mu.Unlock()
					}
				}
			})
		}
	}
	reading.Wait()
	b.ReportMetric(float64(total)/1e6/time.Since(began).Seconds(), "MB/s-read")
}

func read(url string) (int64, error) {
	resp, err := http.Get(url)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return 0, fmt.Errorf("%s: %s: %s", url, resp.Status, bytes.TrimSpace(text))
	}
	return io.Copy(io.Discard, resp.Body)
}
