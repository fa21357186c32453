package robotd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sheaf/internal/files"
	"sheaf/internal/testkit"
	"sheaf/robotd/config"
	"sheaf/robotd/polite"
)

// heavySite has n pages of 40 kB that cannot be compressed.
func heavySite(t *testing.T, ip string, n int) *site {
	site := newSite(t, ip)
	var top strings.Builder
	rng := rand.NewChaCha8([32]byte{7})
	for i := range n {
		fmt.Fprintf(&top, "<a href=%d.bin>%d</a>", i, i)
		body := make([]byte, 40_000)
		rng.Read(body)
		site.page(fmt.Sprintf("www.a.test/%d.bin", i), "application/octet-stream", body)
	}
	site.page("www.a.test/", "text/html", []byte(top.String()))
	return site
}

// collecting is a robot at work in this process.
type collecting struct {
	*Robot
	t     *testing.T
	ended chan error
	stop  context.CancelFunc
	idle  chan error // the uploader's end
}

func collect(t *testing.T, cfg config.Config) *collecting {
	rounds := UsualRounds()
	rounds.Room = 20 * time.Millisecond
	return collectWith(t, cfg, rounds, testLog(t).Handler())
}

func collectWith(t *testing.T, cfg config.Config, rounds Rounds, log slog.Handler) *collecting {
	r, err := newRobot(cfg, slog.New(log), outside{web: newClient(), rounds: rounds})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	c := &collecting{r, t, make(chan error, 1), stop, make(chan error, 1)}
	go func() { c.ended <- r.Cycle(ctx) }()
	go func() { c.idle <- r.uploader.Run(ctx) }()
	return c
}

// finish waits for the cycle's end and uploads what is left.
func (c *collecting) finish() {
	c.t.Helper()
	if err := <-c.ended; err != nil {
		c.t.Fatal(err)
	}
	c.stop()
	if err := <-c.idle; err != nil && !errors.Is(err, context.Canceled) {
		c.t.Fatal(err)
	}
	if err := errors.Join(c.Drain(c.t.Context()), c.Close()); err != nil {
		c.t.Fatal(err)
	}
}

// questions counts the calls of the robot.
func (s *service) questions() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, calls := range s.calls {
		n += calls
	}
	return n
}

func (s *service) goAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

// checkOnce sees to it that every page of the site has arrived once.
func (s *service) checkOnce(t *testing.T, host string, pages int) {
	t.Helper()
	archived := make(map[string]int)
	for i := range s.all() {
		for url := range s.cells(i, host) {
			archived[url]++
		}
	}
	for url, n := range archived {
		if n != 1 {
			t.Errorf("%s arrived %d times", url, n)
		}
	}
	if len(archived) != pages {
		t.Errorf("%d pages arrived, want %d", len(archived), pages)
	}
}

// While the service is away the spool grows to its bound and no further; nothing of
// it is dropped, and what was not collected is when it is back.
func TestSpoolBound(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const pages, bound = 60, 1_000_000
	site := heavySite(t, "127.0.0.71", pages)
	s := newService(t, "http://www.a.test/")
	cfg := testConfig(t, s, map[string]string{"www.a.test": site.addr})
	cfg.Batch.Size, cfg.Disk.Spool = 300_000, bound
	list, err := New(cfg, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(list.session.Refresh(t.Context()), list.Close()); err != nil {
		t.Fatal(err)
	}
	s.goAway(true)
	c := collect(t, cfg)
	testkit.Until(t, "a spool that is full", func() bool {
		made, err := filepath.Glob(filepath.Join(cfg.DataDir, "sealing", "*"))
		testkit.Must(t, err)
		spool, open, err := c.records.Batches.Held()
		testkit.Must(t, err)
		// While a batch is made, its pages are there twice: collecting may stop for that. What
		// is held afterwards is less than the bound, though not by the quarter for which it
		// would go on.
		return len(made) == 0 && spool+open > bound*3/4 && c.manners.Admission.Short() != ""
	})
	was := site.visits()
	asked := s.questions()
	testkit.Until(t, "tries to upload", func() bool { return s.questions() > asked+3 }) // the uploader has been at it for a while
	if now := site.visits(); now > was+1 {
		t.Errorf("%d pages were fetched after the bound was reached", now-was)
	}
	spool, open, err := c.records.Batches.Held()
	if held := spool + open; err != nil || held < bound*3/4 || held > bound+5*40_000 {
		t.Errorf("%d bytes wait, want %d or a little less or more, %v", held, bound, err)
	}
	s.goAway(false)
	c.finish()
	if was > pages/2 || site.visits() != pages+1 {
		t.Errorf("%d pages were fetched while the service was away, %d in all", was, site.visits())
	}
	s.checkOnce(t, "www.a.test", pages+1)
}

// On a small disk the robot stops before it is full, and goes on when batches are published.
func TestSmallDisk(t *testing.T) {
	testkit.Slow(t)
	dir := testkit.SmallDisk(t, "size=8m")
	if dir == "" {
		return
	}
	const pages, free = 200, 2_000_000 // 8 MB of pages
	site := heavySite(t, "127.0.0.72", pages)
	s := newService(t, "http://www.a.test/")
	cfg := testConfig(t, s, map[string]string{"www.a.test": site.addr})
	moveTo(t, &cfg, dir)
	cfg.Batch.Size, cfg.Disk.Free = 1_000_000, free
	c := collect(t, cfg)
	testkit.Until(t, "visits", func() bool { return site.visits() > 10 })
	s.goAway(true)
	testkit.Until(t, "a disk or spool that is full", func() bool { return c.manners.Admission.Short() != "" })
	least := int64(free)
	for range 50 {
		disk, err := polite.DiskOf(dir)()
		if err != nil {
			t.Fatal(err)
		}
		least = min(least, disk.Bytes)
	}
	if least < free/4 {
		t.Errorf("only %d bytes were left on the disk, of which %d were to stay", least, free)
	}
	s.goAway(false)
	c.finish()
	s.checkOnce(t, "www.a.test", pages+1)
}

// Another program fills the disk to the last byte. The robot waits, loses nothing, and goes
// on when there is room.
func TestFullDisk(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	dir := testkit.SmallDisk(t, "size=24m")
	if dir == "" {
		return
	}
	const pages = 200
	site, s, cfg := onSmallDisk(t, dir, "127.0.0.73", pages)
	c := collect(t, cfg)
	for _, at := range []int{20, 90} {
		testkit.Until(t, "visits", func() bool { return site.visits() > at })
		filler := filepath.Join(dir, "filler")
		testkit.Must(t, fill(filler))
		testkit.Until(t, "a disk or spool that is full", func() bool { return c.manners.Admission.Short() != "" })
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}
	c.finish()
	s.checkOnce(t, "www.a.test", pages+1)
}

// The disk is full for a moment: there is room again before the visit that found none has ended. It
// is made again all the same.
func TestFullDiskForMoments(t *testing.T) {
	dir := testkit.SmallDisk(t, "size=24m")
	if dir == "" {
		return
	}
	const pages = 20 // of 40 kB
	site, s, cfg := onSmallDisk(t, dir, "127.0.0.74", pages)
	release := site.holdAfter(5)
	filler := filepath.Join(dir, "filler")
	var look atomic.Pointer[func() error] // set before the disk is full
	emptied := make(chan error, 1)
	cfg.Disk.Free = 0 // nobody measures the disk: it is full when a write fails
	c := collectWith(t, cfg, Rounds{}, onFull{testLog(t).Handler(), func() {
		gone := os.Remove(filler)
		err := (*look.Load())() // for each write that has failed, also before the filler went
		if gone == nil {
			emptied <- err
		}
	}})
	measure := c.manners.Admission.Look
	look.Store(&measure)
	for _, next := range []int{10, 15, 0} {
		testkit.Until(t, "a request", site.holds)
		testkit.Must(t, fill(filler))
		now := release
		release = site.holdAfter(next)
		now()
		testkit.Must(t, <-emptied)
	}
	c.finish()
	s.checkOnce(t, "www.a.test", pages+1)
}

// onFull is a log that calls a function where the robot says that its disk is full.
type onFull struct {
	slog.Handler
	call func()
}

func (h onFull) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "the disk is full" {
		h.call()
	}
	return h.Handler.Handle(ctx, r)
}

func (h onFull) WithAttrs(attrs []slog.Attr) slog.Handler {
	return onFull{h.Handler.WithAttrs(attrs), h.call}
}

// onSmallDisk returns a site of n pages, and the settings of a robot whose folder is on a small
// disk.
func onSmallDisk(t *testing.T, dir, ip string, n int) (*site, *service, config.Config) {
	site := heavySite(t, ip, n)
	s := newService(t, "http://www.a.test/")
	cfg := testConfig(t, s, map[string]string{"www.a.test": site.addr})
	moveTo(t, &cfg, dir)
	cfg.Batch.Size, cfg.Disk.Free = 1_000_000, 1_000_000
	return site, s, cfg
}

// moveTo puts the robot's folder elsewhere.
func moveTo(t *testing.T, cfg *config.Config, dir string) {
	t.Helper()
	to := filepath.Join(dir, "robot")
	if err := os.CopyFS(to, os.DirFS(cfg.DataDir)); err != nil {
		t.Fatal(err)
	}
	cfg.DataDir = to
}

// fill writes a file until the disk takes no more.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for _, chunk := range []int{1 << 16, 1 << 12, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, chunk))
		}
		if !files.IsFull(err) {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}
