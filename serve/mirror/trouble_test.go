package mirror

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/testkit"
)

// isFile reports whether a request is for an edition's file.
func isFile(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/pub/") && isEditionFile(filepath.Base(r.URL.Path))
}

// TestDamagedOnTheWay cuts every file off, then damages it, then damages it where
// it is gone on with: in the end all is in hand, and most of what came before the cut was used.
func TestDamagedOnTheWay(t *testing.T) {
	s := newSite(t)
	s.publish(day, 3, 60_000, "www.waseda.ac.jp", "www.keio.ac.jp", "other.jp")
	var mu sync.Mutex
	times := map[string]int{}
	ranges := 0
	s.intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !isFile(r) {
			next.ServeHTTP(w, r)
			return
		}
		mu.Lock()
		times[r.URL.Path]++
		n := times[r.URL.Path]
		if r.Header.Get("Range") != "" {
			ranges++
		}
		mu.Unlock()
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		body := rec.Body.Bytes()
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(rec.Code)
		switch n {
		case 1:
			w.Write(body[:len(body)/2])
			panic(http.ErrAbortHandler)
		case 2, 3:
			body[len(body)/3] ^= 1
		}
		w.Write(body)
	})
	opt := s.options("http", t.TempDir())
	var notes bytes.Buffer
	opt.Reporter = NewLines(&notes)
	s.mirror(opt)
	s.equal(opt.Dir, japan)
	if damaged := strings.Count(notes.String(), "damaged /"); damaged != 2*6 || ranges != 6 {
		t.Errorf("%d files came damaged, %d were gone on with; want 12 and 6\n%s", damaged, ranges, &notes)
	}
}

// TestDamagedForEver holds that a file that is never as told does not hold up the rest,
// is never taken for whole, and is told of.
func TestDamagedForEver(t *testing.T) {
	s := newSite(t)
	s.publish(day, 1, 1000, "www.waseda.ac.jp", "www.keio.ac.jp", "other.jp")
	broken := true
	s.intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !broken || r.URL.Path != "/pub/jp/ac/keio/www/20261101.tar.gz" {
			next.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		w.Header().Set("ETag", rec.Header().Get("ETag"))
		w.Write(bytes.Repeat([]byte("x"), rec.Body.Len()))
	})
	opt := s.options("http", t.TempDir())
	sum, err := Run(t.Context(), opt)
	var pending *PendingError
	if !errors.As(err, &pending) || pending.First != "/jp/ac/keio/www/" || !strings.Contains(err.Error(), "SHA-256") || sum.Fetched != 5 || sum.Pending != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	if _, err := os.Stat(filepath.Join(opt.Dir, "jp/ac/keio/www/20261101.tar.gz")); err == nil {
		t.Error("the damaged file has its name")
	}
	broken = false
	if sum := s.mirror(opt); sum.Fetched != 1 {
		t.Errorf("mended: %+v", sum)
	}
	s.equal(opt.Dir, japan)
}

// TestChangesUnderTheMirror takes a page down after the mirror has heard of the file, once before
// it is opened and once between two parts of it.
func TestChangesUnderTheMirror(t *testing.T) {
	for name, cut := range map[string]bool{"before": false, "between": true} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.publish(day, 3, 60_000, "www.waseda.ac.jp")
			var once sync.Once
			s.intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if isFile(r) {
					once.Do(func() {
						if cut {
							rec := httptest.NewRecorder()
							next.ServeHTTP(rec, r)
							for k, v := range rec.Header() {
								w.Header()[k] = v
							}
							w.Write(rec.Body.Bytes()[:50_000])
						}
						s.takeDown(catalog.Tombstone{Host: "www.waseda.ac.jp", URLPrefix: "http://www.waseda.ac.jp/p1"})
						if cut {
							panic(http.ErrAbortHandler)
						}
					})
				}
				next.ServeHTTP(w, r)
			})
			opt := s.options("http", t.TempDir())
			s.mirror(opt)
			s.equal(opt.Dir, japan)
		})
	}
}

// TestResumesOverRuns stops a run in the midst of a file; the next goes on there, unless the file
// has changed meanwhile.
func TestResumesOverRuns(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	each(t, func(t *testing.T, scheme string) {
		for _, changed := range []bool{false, true} {
			s := newSite(t)
			s.publish(day, 3, 200_000, "www.waseda.ac.jp")
			opt := s.options(scheme, t.TempDir())
			opt.Limit, opt.Parallel, opt.Forms = 400_000, 1, []string{".tar.gz"}
			ctx, stop := context.WithCancel(t.Context())
			opt.Reporter = &after{bytes: 150_000, then: stop}
			if _, err := Run(ctx, opt); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if changed {
				s.takeDown(catalog.Tombstone{Host: "www.waseda.ac.jp", URLPrefix: "http://www.waseda.ac.jp/p1"})
			}
			opt.Limit, opt.Reporter = 0, nil
			sum := s.mirror(opt)
			s.equal(opt.Dir, japan, ".tar.gz")
			var size int64
			for _, data := range s.tree(japan, ".tar.gz") {
				size = int64(len(data))
			}
			if changed && sum.Bytes != size || !changed && sum.Bytes > size-100_000 {
				t.Errorf("changed %v: %d bytes were fetched of %d", changed, sum.Bytes, size)
			}
		}
	})
}

// after calls then when so many bytes have come.
type after struct {
	silent
	bytes int64
	then  func()
}

func (a *after) Begin(string, int64, int64) Bar { return a }

func (a *after) Add(n int64) {
	if a.bytes -= n; a.bytes <= 0 {
		a.then()
	}
}

// TestComesBackLater holds that a mirror stays away for as long as it is asked to, with
// every request, and that it does not wait for what never comes, or comes too late.
func TestComesBackLater(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s := newSite(t)
	s.publish(day, 1, 100, "www.waseda.ac.jp", "www.keio.ac.jp", "other.jp")
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		var all, waits, early atomic.Int64
		var until time.Time
		shut := make(chan struct{}) // closed when the mirror waits until then
		s.intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			n := int64(0)
			if isFile(r) {
				n = all.Add(1)
			}
			switch {
			case n == 1: // this one is under way when the service wants no more
				<-shut
			case n == 2:
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(status)
				return
			case n > 2:
				<-shut
				if time.Now().Before(until) {
					early.Add(1)
				}
			}
			next.ServeHTTP(w, r)
		})
		opt := s.options("http", t.TempDir())
		opt.Parallel = 2
		opt.Reporter = notes(func(n Note) {
			if n.Event == "waiting" && waits.Add(1) == 1 {
				until = n.Until
				close(shut)
			}
		})
		s.mirror(opt)
		s.equal(opt.Dir, japan)
		if early.Load() > 0 || waits.Load() != 1 {
			t.Errorf("%d: %d waits, and %d requests while the service wanted none", status, waits.Load(), early.Load())
		}
	}
	s.intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) { next.ServeHTTP(w, r) })
	tomorrow := time.Now().UTC().Add(time.Minute).AddDate(0, 0, 1) // not today within a minute either
	s.Account("shut", "never", "jp")
	s.Account("later", tomorrow.Format("Mon")+" 00:00-24:00", "jp")
	for _, scheme := range []string{"http", "ftp"} {
		for account, says := range map[string]string{"shut": "not allowed", "later": tomorrow.Format("2006-01-02") + "T00:00:00Z", "nobody": "account"} {
			opt := s.options(scheme, t.TempDir())
			opt.URL, opt.MaxWait = s.url(scheme, account), time.Second
			if _, err := Run(t.Context(), opt); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s as %s: %v; want %q", scheme, account, err, says)
			}
		}
	}
}

// TestTakeDownsDoNotWait holds that what is taken down while files are refused goes at once.
func TestTakeDownsDoNotWait(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s := newSite(t)
	s.publish(day, 1, 100, "www.waseda.ac.jp", "www.keio.ac.jp", "other.jp")
	opt := s.options("http", t.TempDir())
	opt.aside, opt.Poll = 200*time.Millisecond, 50*time.Millisecond
	s.mirror(opt)
	s.publish(day.AddDate(0, 0, 1), 1, 100, "www.waseda.ac.jp", "www.keio.ac.jp")
	var open atomic.Bool
	s.intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if isFile(r) && !open.Load() {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
	opt.Reporter = notes(func(n Note) {
		switch {
		case n.Event == "waiting":
			s.takeDown(catalog.Tombstone{Host: "www.keio.ac.jp"})
			s.takeDown(catalog.Tombstone{Host: "other.jp"})
		case n.Event == "deleted" && n.Path == "/jp/other/20261101.warc.gz":
			open.Store(true)
		case n.Event == "fetched" && !open.Load():
			t.Errorf("%v before it is allowed", n)
		}
	})
	s.mirror(opt)
	if !open.Load() {
		t.Error("the take-down waited")
	}
	s.equal(opt.Dir, japan)
}

// TestServiceRestarts takes the service away in the midst of a transfer and brings it back at
// the same address a while later.
func TestServiceRestarts(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s := newSite(t)
	s.publish(day, 2, 100_000, "www.waseda.ac.jp", "www.keio.ac.jp", "other.jp", "a.jp", "b.jp")
	addr, random := testkit.Addresses(t, 1)[0], testkit.Random(t)
	l, err := net.Listen("tcp", addr)
	testkit.Must(t, err)
	server := &http.Server{Handler: s}
	go server.Serve(l)
	restarts := 0
	var mu sync.Mutex // guards restarts and server
	opt := s.options("http", t.TempDir())
	opt.URL = "http://alice:alice@" + addr
	opt.Reporter = &each100k{then: func() {
		mu.Lock()
		defer mu.Unlock()
		if restarts++; restarts > 4 {
			return
		}
		server.Close()
		testkit.Moment(random, 200*time.Millisecond)
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Error(err)
			return
		}
		server = &http.Server{Handler: s}
		go server.Serve(l)
	}}
	s.mirror(opt)
	s.equal(opt.Dir, japan)
	mu.Lock()
	defer mu.Unlock()
	server.Close()
	if restarts < 4 {
		t.Errorf("%d restarts", restarts)
	}
}

// each100k calls then each time another 100,000 bytes have come.
type each100k struct {
	silent
	mu   sync.Mutex // guards n
	n    int64
	then func()
}

func (e *each100k) Begin(string, int64, int64) Bar { return e }

func (e *each100k) Add(n int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.n += n; e.n > 100_000 {
		e.n = 0
		e.then()
	}
}

// A mirror that waits for its own limit between two reads does not take that for a stall of the
// service.
func TestWaitingIsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		body := watch(ctx, cancel, io.NopCloser(strings.NewReader("ab")))
		defer body.Close()
		for range 2 {
			time.Sleep(2 * stall)
			if _, err := io.ReadFull(body, make([]byte, 1)); err != nil || ctx.Err() != nil {
				t.Errorf("%v, %v", err, context.Cause(ctx))
			}
		}
	})
}
