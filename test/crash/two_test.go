package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/robotd/batch"
)

// TestTwoServices runs two `sheaf serve` that share a PostgreSQL database, a data directory and a
// store, and kills them again and again in turn. Robots upload to both, consumers read from both.
// Nothing is lost, each batch is published once, and the living process continues the work of the
// other. The test reports how long after each kill the next list was fetched, the next batch was
// accepted, and one uploaded since was public. By default each service is killed once, and the
// store is a directory. The long form takes runTime, and a store over S3 too.
func TestTwoServices(t *testing.T) {
	notShort(t)
	t.Parallel()
	sheaf := testkit.Build(t, "sheaf/cmd/sheaf")
	for name, settings := range map[string]func(*testing.T) map[string]any{
		"fs": func(*testing.T) map[string]any { return nil },
		"s3": s3Settings,
	} {
		t.Run(name, func(t *testing.T) {
			if name != "fs" {
				onlyLong(t)
			}
			t.Parallel()
			testTwoServices(t, newPair(t, sheaf, settings(t)))
		})
	}
}

// TestTwoServicesApart is TestTwoServices for services that share no directory. What a killed one
// was splitting, the other takes over when the lease has ended, after a minute, so it takes three
// and runs in the long form only.
func TestTwoServicesApart(t *testing.T) {
	testkit.Long(t) // three minutes
	t.Parallel()
	settings := s3Settings(t)
	settings["uploads.accepted"], settings["database.seal"] = "store", strings.Repeat("5e", 32)
	testTwoServices(t, newPair(t, testkit.Build(t, "sheaf/cmd/sheaf"), settings))
}

// s3Settings returns the settings of a service whose store is a versitygw of the test's own.
func s3Settings(t *testing.T) map[string]any {
	o := storetest.StartVersity(t).Options(t)
	return map[string]any{"store.kind": "s3", "store.endpoint": o.Endpoint, "store.bucket": o.Bucket, "store.access_key": o.AccessKey, "store.secret_key": o.SecretKey}
}

// pair is two services that share everything but their addresses.
type pair struct {
	*fleet
	sheaf    string
	services [2]*running
}

// running is one of them.
type running struct {
	*installation
	program *program
	lives   atomic.Int64 // odd while it runs, or may
}

func newPair(t *testing.T, sheaf string, settings map[string]any) *pair {
	t.Helper()
	p := &pair{fleet: &fleet{installation: newInstallation(t, "")}, sheaf: sheaf}
	common := p.installation.settings
	common["database.url"] = dbtest.Postgres(t)
	for key, value := range settings {
		common[key] = value
	}
	for n := range p.services {
		h := *p.installation
		h.settings = map[string]any{}
		for key, value := range common {
			h.settings[key] = value
		}
		if n > 0 {
			listen := testkit.Addresses(t, 3)
			h.settings["http.listen"], h.settings["download.listen"], h.settings["drop.listen"] = listen[0], listen[1], listen[2]
		}
		if n > 0 && h.settings["uploads.accepted"] == "store" {
			h.data = t.TempDir()
			h.settings["data"] = h.data
		}
		h.log = fmt.Sprint(p.log, n)
		s := &running{installation: &h, program: &program{t: t, path: sheaf, log: h.log, args: append([]string{"serve"}, h.flags()...)}}
		p.services[n] = s
		p.start(n)
	}
	p.installation.process = p.services[0].process
	return p
}

// flags returns the installation's settings as command-line flags.
func (h *installation) flags() (args []string) {
	for key, value := range h.settings {
		args = append(args, "--set", fmt.Sprintf("%s=%v", key, value))
	}
	return args
}

// start starts one of the services, and waits until it answers.
func (p *pair) start(n int) {
	p.t.Helper()
	s := p.services[n]
	s.program.start()
	s.program.life.Ready(p.t, func() error {
		token, err := service.ReadToken(s.data)
		if err != nil {
			return err
		}
		s.process = &process{hello: hello{Token: token, Addresses: service.Addresses{Download: s.settings["download.listen"].(string)}}}
		return s.operate(http.MethodGet, api.PathAdminRobots, nil, nil)
	})
	s.lives.Add(1)
}

func (p *pair) kill(n int) {
	p.services[n].lives.Add(1)
	p.services[n].program.kill()
}

// joinAll lets a robot join for each way of uploading, gives it hosts, and lets it fetch its list,
// every other one from the second service.
func (p *pair) joinAll(ways ...way) {
	p.t.Helper()
	for n, way := range ways {
		name := []string{"waseda", "etl", "jaist", "nara"}[n]
		p.members = append(p.members, &member{robot: p.join(name), way: way, spool: newSpool(p.t)})
	}
	for _, m := range p.members {
		p.add(m.robot.Name, 3)
	}
	for n, m := range p.members {
		p.services[n%2].fetchList(m.robot)
	}
}

func testTwoServices(t *testing.T, p *pair) {
	p.joinAll(byHTTP, byFTP, cutHTTP, byHTTP)
	at := newStopwatch()
	consumers := p.consume(t)
	working, stop := context.WithCancel(t.Context())
	robots := p.workAtBoth(working, at)
	testkit.Eventually(t, "work begins", func() error { return at.reached("published", 3) })

	var kills []map[string]time.Duration
	for began := time.Now(); len(kills) < 2 || long() && time.Since(began) < runTime(t); {
		n := len(kills) % 2
		waiting := p.unpublished()
		at.restart()
		p.kill(n)
		p.listFrom(n, at)
		testkit.Eventually(t, "the other service takes and publishes batches", func() error { return at.reachedSince("taken", "published") })
		testkit.Eventually(t, "the other service publishes what the dead one had", func() error {
			for _, c := range waiting {
				if !p.told(c.ID) {
					return fmt.Errorf("batch %s is not published", c.ID)
				}
			}
			return nil
		})
		at.stop("drained")
		kills = append(kills, at.since())
		p.start(n)
	}
	stop()
	robots.Wait()
	consumers()
	p.checkTwo(t)
	report(t, fmt.Sprintf("%d batches, %d kills of a service", len(p.all()), len(kills)), kills, "list", "taken", "published", "drained")
}

// unpublished returns the batches whose robots do not know yet that they are published.
func (p *pair) unpublished() (list []*madeBatch) {
	for _, c := range p.all() {
		if !p.told(c.ID) {
			list = append(list, c)
		}
	}
	return list
}

func (p *pair) told(id wire.BatchID) bool {
	for _, m := range p.members {
		m.spool.mu.Lock()
		n := m.spool.published[id]
		m.spool.mu.Unlock()
		if n > 0 {
			return true
		}
	}
	return false
}

// listFrom fetches a robot's list from the service that was killed or, as robots do, from the
// other.
func (p *pair) listFrom(dead int, at *stopwatch) {
	p.t.Helper()
	m := p.members[0]
	for try := dead; ; try++ {
		req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.services[try%2].url()+strings.ReplaceAll(wire.PathList, "{robot}", m.Name), nil)
		testkit.Must(p.t, err)
		req.SetBasicAuth(m.Name, m.secret)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			p.t.Fatalf("list: %s", resp.Status)
		}
		at.stop("list")
		return
	}
}

// breath returns a robot's pause between two batches, on average, which leaves processor time to
// others.
func breath() time.Duration {
	if long() {
		return 50 * time.Millisecond
	}
	return 150 * time.Millisecond
}

// workAtBoth lets every robot make batches and upload them to either service until ctx ends.
func (p *pair) workAtBoth(ctx context.Context, at *stopwatch) *sync.WaitGroup {
	var g sync.WaitGroup
	for i, m := range p.members {
		var targets []batch.Target
		var desks []batch.ReceiptSource
		for k := range p.services {
			h := p.services[(i+k)%2].installation // each half of them prefers another
			desk := h.desk(m.robot)
			desks = append(desks, desk)
			targets = append(targets, timed{h.target(m.robot, desk, m.way), at})
		}
		up := batch.NewUploader(batch.UploaderOptions{
			Spool: m.spool, Targets: targets, Receipts: batch.NewReceiptSources(desks...), Poll: breath() / 2, BackOff: 10 * time.Millisecond, BackOffMax: 100 * time.Millisecond,
			Published: func(b batch.Spooled, _ *wire.Receipt) error { at.published(b.ID); return nil },
		})
		g.Go(func() {
			for n := int64(1); ctx.Err() == nil; n++ {
				c := m.make(p.t, n, 2, 8<<10, m.hosts[:1+int(n)%len(m.hosts)]...)
				p.register(c)
				testkit.Moment(testkit.Random(p.t), 2*breath())
				if err := m.spool.add(c); err != nil {
					p.t.Error(err)
				}
				if err := up.Drain(p.t.Context()); err != nil {
					p.t.Errorf("robot %s: %v", m.Name, err)
				}
			}
		})
	}
	return &g
}

// consume lets consumers read from both services. Only a killed one may fail to answer.
func (p *pair) consume(t *testing.T) (end func()) {
	over := make(chan struct{})
	pause := breath() / 2
	var g sync.WaitGroup
	for _, s := range p.services {
		c := &consumer{fleet: p.fleet, url: s.url(), manifests: map[string][]byte{}}
		g.Go(func() {
			for looks := 0; ; {
				life := s.lives.Load()
				err := c.lookOnce(t.Context())
				if life%2 == 1 && s.lives.Load() == life {
					if err != nil {
						t.Errorf("a consumer of a living service: %v", err)
						return
					}
					looks++
				}
				select {
				case <-over:
					t.Logf("a consumer looked %d times, at %d editions, at version %d", looks, len(c.manifests), c.version)
					return
				case <-time.After(pause):
				}
			}
		})
	}
	return func() { close(over); g.Wait() }
}

// awaitEmpty waits until the buffers of all services are empty.
func awaitEmpty(t *testing.T, services []*running) {
	t.Helper()
	testkit.Eventually(t, "the buffers are emptied", func() error {
		var left []string
		for _, s := range services {
			for _, dir := range []string{"batches", "receive", "receive-1", "quarantine"} {
				left = append(left, names(t, s.data+"/buffers/"+dir)...)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("there is still %s", left)
		}
		return nil
	})
}

// awaitReaders waits until the readers of all services see the newest version: what one of them
// publishes those of the others see a moment later.
func awaitReaders(t *testing.T, objects store.Store, services []*running) {
	t.Helper()
	c, err := catalog.Open(t.Context(), objects, catalog.Options{})
	testkit.Must(t, err)
	newest, err := c.Pin(t.Context())
	testkit.Must(t, err)
	defer newest.Release()
	for _, s := range services {
		reader := &consumer{fleet: &fleet{installation: s.installation}, url: s.url()}
		testkit.Eventually(t, "its readers see the newest version", func() error {
			var version api.VersionDocument
			text, err := reader.get(t.Context(), "/v1/version")
			if err == nil {
				err = json.Unmarshal(text, &version)
			}
			if err != nil || version.Catalog < newest.Version() {
				return fmt.Errorf("version %d of %d: %w", version.Catalog, newest.Version(), err)
			}
			return nil
		})
	}
}

// checkTwo is checkEnd for both services.
func (p *pair) checkTwo(t *testing.T) {
	batches := p.all()
	p.checkSpools(t, batches)
	awaitEmpty(t, p.services[:])
	cfg, err := service.Load("", p.services[0].settings)
	testkit.Must(t, err)
	objects, err := service.OpenStore(t.Context(), cfg)
	testkit.Must(t, err)
	defer objects.Close()
	awaitReaders(t, objects, p.services[:])
	for n, s := range p.services {
		s.checkDownloads(batches)
		p.kill(n)
	}
	p.checkCatalogIn(objects, batches)
	report := p.fsck(p.sheaf, p.services[0].flags()...)
	if report.Batches != int64(len(batches)) || report.Segments != report.Verified {
		t.Errorf("fsck finds %d batches of %d, and verified %d of %d segments", report.Batches, len(batches), report.Verified, report.Segments)
	}
}
