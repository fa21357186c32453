package mirror

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
)

// TestChanging mirrors what changes with every edition, through publications and take-downs:
// a file is fetched again when, and only when, its content is another.
func TestChanging(t *testing.T) {
	each(t, func(t *testing.T, scheme string) {
		s := newSite(t)
		s.publish(day, 2, 1000, "www.waseda.ac.jp", "www.keio.ac.jp", "other.jp")
		opt := s.options(scheme, t.TempDir())
		opt.Forms = []string{".tar.gz", "current.tar.gz", "all.warc.gz"}
		step := func(what string, fetched, deleted int64) {
			t.Helper()
			sum := s.mirror(opt)
			if sum.Fetched != fetched || sum.Deleted != deleted {
				t.Errorf("%s: %+v; want %d fetched and %d deleted", what, sum, fetched, deleted)
			}
			s.equal(opt.Dir, japan, opt.Forms...)
		}
		step("at first", 9, 0)
		step("again", 0, 0)
		s.publish(day.AddDate(0, 0, 1), 1, 1000, "www.waseda.ac.jp", "www.keio.ac.jp")
		step("a second edition", 6, 0)
		s.takeDown(catalog.Tombstone{Host: "other.jp"})
		step("a host is taken down", 0, 3)
		s.takeDown(catalog.Tombstone{Host: "www.keio.ac.jp", URLPrefix: "http://www.keio.ac.jp/p1"})
		step("a page is taken down", 3, 2) // what holds all went before the rest was known
		s.takeDown(catalog.Tombstone{Host: "www.waseda.ac.jp", Edition: "20261101"})
		step("an edition is taken down", 2, 3)
		opt.Check = true
		step("checked", 0, 0)
		opt.Check = false
		opt.Forms = []string{".tar.gz"}
		step("without them", 0, 4)
	})
}

// TestReplacesAtOnce looks at a file that changes while it is being mirrored: at every moment it
// has its name, with the old content or the new one, and no MANIFEST says of one that it is the
// other.
func TestReplacesAtOnce(t *testing.T) {
	s := newSite(t)
	s.publish(day, 2, 100_000, "www.waseda.ac.jp")
	opt := s.options("http", t.TempDir())
	opt.Forms = []string{"current.tar.gz"}
	s.mirror(opt)
	name := filepath.Join(opt.Dir, "jp/ac/waseda/www/current.tar.gz")
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	s.publish(day.AddDate(0, 0, 1), 3, 100_000, "www.waseda.ac.jp")
	now := s.tree(japan, opt.Forms...)
	looks := 0
	look := func() {
		is, err := os.ReadFile(name)
		if err != nil || !bytes.Equal(is, before) && !anyOf(now, is) {
			t.Errorf("in between there are %d bytes, %v", len(is), err)
		}
		s.partlyEqual(opt.Dir)
		looks++
	}
	opt.Reporter = &each100k{then: look}
	s.mirror(opt)
	s.equal(opt.Dir, japan, opt.Forms...)
	if looks < 2 {
		t.Errorf("looked %d times", looks)
	}
}

func anyOf(all map[string][]byte, data []byte) bool {
	for _, f := range all {
		if bytes.Equal(f, data) {
			return true
		}
	}
	return false
}

// TestChangingIsResumed cuts a run off in the midst of a file that changes: the next one goes on
// where it has the same ETag, and begins anew where it has another.
func TestChangingIsResumed(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	each(t, func(t *testing.T, scheme string) {
		for _, changed := range []bool{false, true} {
			s := newSite(t)
			s.publish(day, 3, 200_000, "www.waseda.ac.jp")
			opt := s.options(scheme, t.TempDir())
			opt.Limit, opt.Parallel, opt.Forms = 400_000, 1, []string{"all.tar.gz"}
			ctx, stop := context.WithCancel(t.Context())
			opt.Reporter = &after{bytes: 150_000, then: stop}
			if _, err := Run(ctx, opt); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if changed {
				s.publish(day.AddDate(0, 0, 1), 1, 10, "www.waseda.ac.jp")
			}
			opt.Limit, opt.Reporter = 0, nil
			sum := s.mirror(opt)
			s.equal(opt.Dir, japan, opt.Forms...)
			for _, data := range s.tree(japan, opt.Forms...) {
				if size := int64(len(data)); changed && sum.Bytes != size || !changed && sum.Bytes > size-100_000 {
					t.Errorf("changed %v: %d bytes were fetched of %d", changed, sum.Bytes, size)
				}
			}
		}
	})
}

// TestChangesOnTheWayByFTP publishes between the MANIFEST that tells of a file and the file, which
// FTP does not show until too much or too little has come.
func TestChangesOnTheWayByFTP(t *testing.T) {
	for name, next := range map[string]func(s *site){
		"longer": func(s *site) { s.publish(day.AddDate(0, 0, 1), 2, 1000, "www.waseda.ac.jp") },
		"shorter": func(s *site) {
			s.takeDown(catalog.Tombstone{Host: "www.waseda.ac.jp", URLPrefix: "http://www.waseda.ac.jp/p1"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.publish(day, 2, 1000, "www.waseda.ac.jp")
			opt := s.options("ftp", t.TempDir())
			opt.Forms = []string{"all.tar.gz"}
			var once atomic.Bool
			opt.Reporter = began(func(path string) {
				if once.CompareAndSwap(false, true) {
					next(s)
				}
			})
			s.mirror(opt)
			s.equal(opt.Dir, japan, opt.Forms...)
		})
	}
}

// began reports the beginnings of downloads to a function.
type began func(path string)

func (b began) Begin(path string, _, _ int64) Bar { b(path); return silent{} }
func (began) Feed(int64, int64)                   {}
func (began) Note(Note)                           {}

// TestTakeDownOfAPageDoesNotWait holds that what holds a page that is taken down while files are
// refused goes at once, and that what is only out of date stays.
func TestTakeDownOfAPageDoesNotWait(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s := newSite(t)
	s.publish(day, 2, 100, "www.waseda.ac.jp", "www.keio.ac.jp")
	opt := s.options("http", t.TempDir())
	opt.aside, opt.Poll, opt.Forms = 200*time.Millisecond, 50*time.Millisecond, []string{"all.tar.gz"}
	s.mirror(opt)
	s.publish(day.AddDate(0, 0, 1), 1, 100, "www.waseda.ac.jp", "www.keio.ac.jp")
	var open atomic.Bool
	s.intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasPrefix(r.URL.Path, "/pub/") && !open.Load() {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
	opt.Reporter = notes(func(n Note) {
		switch {
		case n.Event == "waiting":
			s.takeDown(catalog.Tombstone{Host: "www.keio.ac.jp", URLPrefix: "http://www.keio.ac.jp/p1"})
		case n.Event == "deleted" && n.Path == "/jp/ac/keio/www/all.tar.gz":
			if _, err := os.Stat(filepath.Join(opt.Dir, "jp/ac/waseda/www/all.tar.gz")); err != nil {
				t.Error(err)
			}
			open.Store(true)
		}
	})
	s.mirror(opt)
	if !open.Load() {
		t.Error("the take-down waited")
	}
	s.equal(opt.Dir, &account.Account{Domains: []string{"jp"}}, opt.Forms...)
}

// TestForms holds what may be asked for.
func TestForms(t *testing.T) {
	for text, want := range map[string]string{
		"tar.gz": ".tar.gz", ".links.gz": ".links.gz", "current.warc.gz": "current.warc.gz", "all.links.gz": "all.links.gz",
		"current.links.gz": "", "zip": "", "members.tar.gz": "", "current.tar": "", "other.tar.gz": "", "../all.tar.gz": "", "": "",
	} {
		if got, err := form(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}
