package upload_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sheaf/ingest"
	"sheaf/ingest/receive"
	"sheaf/internal/files"
	"sheaf/internal/testkit"
	"sheaf/internal/window"
	"sheaf/internal/wire"
	"sheaf/robotd/batch"
	"sheaf/test/batchtest"
)

const mib = 1 << 20

// large makes a batch of about n bytes that cannot be compressed.
func large(t testing.TB, r *batchtest.Robots, number int64, n int) *batchtest.Batch {
	body := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{byte(number)})
	rng.Read(body)
	return batchtest.Make(t, r, number, batchtest.Host{
		Name: fmt.Sprintf("h%d.example.jp", number),
		Each: func(yield func(batchtest.Page) bool) { yield(batchtest.Page{Path: "/", Body: body}) },
	})
}

// soon lets robots that are refused retry soon.
func soon(o *receive.Options) { o.RetryAfter = 50 * time.Millisecond }

// shut sets a publish window that does not open while the test runs.
func shut(t *testing.T) func(*ingest.Options) {
	at := time.Now().UTC().Add(12 * time.Hour)
	w, err := window.Parse(at.Format("15:04") + "-" + at.Add(time.Minute).Format("15:04") + " UTC")
	testkit.Must(t, err)
	return func(o *ingest.Options) { o.Window = w }
}

// answers counts the statuses of answers.
type answers struct {
	mu   sync.Mutex
	seen map[int]int
	bare int // refusals without a time to retry
}

func (a *answers) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := http.DefaultClient.Transport.RoundTrip(req)
	if err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.seen[res.StatusCode]++
		if n, err := strconv.Atoi(res.Header.Get("Retry-After")); (res.StatusCode == 503 || res.StatusCode == 507) && (err != nil || n < 1) {
			a.bare++
		}
	}
	return res, err
}

// told452 matches what a robot logs about a refusal over FTP, with the time to retry.
var told452 = regexp.MustCompile(`452 .{0,2}no room for .*go on at 75 %; keep the batch and try again; again in [0-9]+ s`)

// TestSmallDisk: more batches than the disk can hold all get through, by HTTP and FTP, although
// nothing leaves the disk until the operator publishes.
func TestSmallDisk(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	dir, store := testkit.SmallDisk(t, "size=40m"), ""
	if dir != "" { // the store has a disk of its own as well: the machine's may be nearly full
		store = testkit.SmallDisk(t, "size=400m")
	}
	if store == "" {
		return
	}
	h := newInstallation(t, setup{dir: dir, store: store, receiver: soon, ingest: shut(t)})
	var all []*batchtest.Batch
	for n := range int64(12) {
		all = append(all, large(t, h.robots, n+1, 5*mib))
		h.put(all[n])
	}
	// Two spools, as of two robots: one sends by HTTP, the other by FTP.
	other := &installation{t: t, robots: h.robots, spool: t.TempDir()}
	for _, b := range all[6:] {
		for _, suffix := range []string{".tar.gz", ".manifest"} {
			testkit.Must(t, os.MkdirAll(filepath.Join(other.spool, "spool"), 0o755))
			testkit.Must(t, os.Rename(filepath.Join(h.spool, "spool", string(b.ID)+suffix), filepath.Join(other.spool, "spool", string(b.ID)+suffix)))
		}
	}
	seen := &answers{seen: make(map[int]int)}
	service := h.service()
	service.Client = &http.Client{Transport: seen}
	var robots sync.WaitGroup
	for _, u := range []*batch.Uploader{h.uploader(service), other.uploader(h.drop())} {
		robots.Go(func() {
			if err := u.Drain(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	// Nothing is published until both robots have been refused.
	refused := func() bool {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		return seen.seen[503]+seen.seen[507] > 0 && told452.MatchString(other.log.String())
	}
	peak := 0.0
	published := 0
	testkit.Until(t, "all is published", func() bool {
		room, err := files.RoomOn(dir)
		testkit.Must(t, err)
		peak = max(peak, float64(room.Bytes-room.Free)/float64(room.Bytes))
		if refused() {
			_, n, err := h.in.Publisher.Now(t.Context())
			testkit.Must(t, err)
			published += n
		}
		return published == len(all)
	})
	robots.Wait()
	for _, b := range all[:6] {
		h.wantPublished(b)
	}
	other.in, other.cat = h.in, h.cat
	for _, b := range all[6:] {
		other.wantPublished(b)
	}
	if seen.bare > 0 {
		t.Errorf("answers %v, %d of them without Retry-After", seen.seen, seen.bare)
	}
	if peak > 0.86 || peak < 0.45 {
		t.Errorf("the disk was %.0f %% full at most", 100*peak)
	}
}

// TestStoreOnTheSameDisk: the copy that the split makes is reserved with the batch.
func TestStoreOnTheSameDisk(t *testing.T) {
	testkit.Slow(t)
	dir := testkit.SmallDisk(t, "size=48m")
	if dir == "" {
		return
	}
	h := newInstallation(t, setup{dir: dir, receiver: soon, ingest: shut(t)})
	first, second := large(t, h.robots, 1, 14*mib), large(t, h.robots, 2, 9*mib)
	h.put(first)
	h.put(second)
	spooled := h.spooled()
	testkit.Must(t, h.service().Send(t.Context(), spooled[0]))
	err := h.service().Send(t.Context(), spooled[1])
	h.wantLater(err)
	if !strings.Contains(err.Error(), ": 507 ") {
		t.Errorf("refused with %v, want 507", err)
	}
	h.wantLater(h.drop().Send(t.Context(), spooled[1]))
	testkit.Until(t, "the batch is split: nothing failed for want of room", func() bool {
		r, err := h.in.Acceptor.Receipt(t.Context(), first.ID)
		testkit.Must(t, err)
		return r.State == wire.StatePostSplit
	})
	_, _, err = h.in.Publisher.Now(t.Context())
	testkit.Must(t, err)
	// The store keeps 14 MiB; the second takes 9 and 9.
	testkit.Eventually(t, "the second batch is taken", func() error { return h.service().Send(t.Context(), spooled[1]) })
}

// TestDiskFilledByOthers: another program fills the disk during an upload. The bytes that have come
// are kept, the offset that was told stays true, and the rest follows when there is room.
func TestDiskFilledByOthers(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	dir, store := testkit.SmallDisk(t, "size=64m"), ""
	if dir != "" {
		store = testkit.SmallDisk(t, "size=400m")
	}
	if store == "" {
		return
	}
	h := newInstallation(t, setup{dir: dir, store: store, receiver: soon})
	filler := filepath.Join(dir, "filler")
	var fill sync.Once
	moved := func(at int64, _ bool) {
		if at > mib {
			fill.Do(func() { fillDisk(t, filler) })
		}
	}
	service, drop := h.service(), h.drop()
	service.Moved, drop.Moved = moved, moved
	for n, by := range []way{service, drop} {
		b := large(t, h.robots, int64(n+1), 40*mib)
		h.put(b)
		fill = sync.Once{}
		// It depends on the network whether the answer is seen before the connection breaks.
		if err := by.Send(t.Context(), h.spooled()[0]); err == nil {
			t.Errorf("%s: sent through a full disk", by.Name())
		}
		kept, _ := filepath.Glob(filepath.Join(dir, "buffers", "receive", string(b.ID)+"*"))
		if len(kept) != 2 {
			t.Errorf("%s: what came is not kept: %v", by.Name(), kept)
		}
		h.wantLater(by.Send(t.Context(), h.spooled()[0])) // it is still full
		testkit.Must(t, os.Remove(filler))
		h.drain(by)
		h.wantPublished(b)
	}
}

// fillDisk makes a file that takes all that is left of a disk.
func fillDisk(t *testing.T, filler string) {
	f, err := os.Create(filler)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	for block := make([]byte, mib); err == nil; _, err = f.Write(block) {
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Error(err)
	}
}

// TestNoMoreFiles: a disk without room for another file is full.
func TestNoMoreFiles(t *testing.T) {
	dir := testkit.SmallDisk(t, "size=16m,nr_inodes=200")
	if dir == "" {
		return
	}
	h := newInstallation(t, setup{dir: dir, receiver: soon})
	b := batchtest.Make(t, h.robots, 1, batchtest.Site("www.example.jp", 2))
	h.put(b)
	crowd := filepath.Join(dir, "crowd")
	testkit.Must(t, os.Mkdir(crowd, 0o755))
	for i := range 170 {
		testkit.Must(t, os.WriteFile(filepath.Join(crowd, strconv.Itoa(i)), nil, 0o600))
	}
	h.wantLater(h.service().Send(t.Context(), h.spooled()[0]))
	h.wantLater(h.drop().Send(t.Context(), h.spooled()[0]))
	testkit.Must(t, os.RemoveAll(crowd))
	h.drain(h.service())
	h.wantPublished(b)
}

// spooled lists the robot's spool.
func (h *installation) spooled() []batch.Spooled {
	h.t.Helper()
	s, err := batch.Open(h.spool, 1, batch.Options{Robot: batchtest.Robot, Key: h.robots.Key})
	testkit.Must(h.t, err)
	defer s.Close()
	list, err := s.Spool()
	testkit.Must(h.t, err)
	return list
}

func (h *installation) wantLater(err error) {
	h.t.Helper()
	var later *batch.LaterError
	if !errors.As(err, &later) || later.After < time.Second {
		h.t.Errorf("got %v, want to be told when to come again", err)
	}
}
