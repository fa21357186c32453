package mirror

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/archive/catalog"
	"sheaf/serve/account"
)

// TestOtherFeed points a mirror at a service whose feed is another, as after the loss of
// the newest versions, and then narrows what the account may see: what is not there any more goes.
func TestOtherFeed(t *testing.T) {
	each(t, func(t *testing.T, scheme string) {
		before, s := newSite(t), newSite(t)
		before.publish(day, 1, 100, "www.waseda.ac.jp", "lost.jp")
		before.publish(day.AddDate(0, 0, 1), 1, 100, "www.waseda.ac.jp", "lost.jp")
		dir := t.TempDir()
		before.mirror(before.options(scheme, dir))
		s.publish(day, 1, 100, "www.waseda.ac.jp", "www.keio.ac.jp")
		if sum := s.mirror(s.options(scheme, dir)); sum.Deleted != 2*3 {
			t.Errorf("%+v", sum)
		}
		s.equal(dir, japan)

		if err := s.Accounts.Delete(t.Context(), "alice"); err != nil {
			t.Fatal(err)
		}
		s.Account("alice", "always", "keio.ac.jp")
		if sum := s.mirror(s.options(scheme, dir)); sum.Deleted != 2 || sum.Fetched != 0 {
			t.Errorf("narrowed: %+v", sum)
		}
		s.equal(dir, &account.Account{Domains: []string{"keio.ac.jp"}})
	})
}

// TestCheck damages what is in hand.
func TestCheck(t *testing.T) {
	s := newSite(t)
	s.publish(day, 1, 100, "www.waseda.ac.jp", "www.keio.ac.jp")
	s.Publish("20261102", records(day, 1, 100, "www.keio.ac.jp"), records(day, 1, 200, "www.keio.ac.jp"))
	opt := s.options("http", t.TempDir())
	s.mirror(opt)
	for _, name := range []string{"waseda/www/20261101.warc.gz", "keio/www/20261102.tar.gz"} { // of the second no SHA-256 is known
		path := filepath.Join(opt.Dir, "jp/ac", name)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)-6] ^= 1
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(opt.Dir, "jp/ac/keio/www/20261101.tar.gz")); err != nil {
		t.Fatal(err)
	}
	opt.Check = true
	if sum := s.mirror(opt); sum.Fetched != 3 {
		t.Errorf("%+v", sum)
	}
	s.equal(opt.Dir, japan)
	if sum := s.mirror(opt); sum.Fetched != 0 {
		t.Errorf("again: %+v", sum)
	}
}

// TestFollows holds that a mirror that goes on takes what is published and taken down meanwhile.
func TestFollows(t *testing.T) {
	each(t, func(t *testing.T, scheme string) {
		s := newSite(t)
		s.publish(day, 1, 100, "www.waseda.ac.jp", "www.keio.ac.jp")
		opt := s.options(scheme, t.TempDir())
		current := make(chan int64, 100)
		opt.Once, opt.Poll, opt.Reporter = false, 200*time.Millisecond, notes(func(n Note) {
			if n.Event == "current" {
				current <- n.Since
			}
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := Run(ctx, opt)
			ended <- err
		}()
		until := func(seq int64) {
			t.Helper()
			for deadline := time.After(time.Minute); ; {
				select {
				case at := <-current:
					if at >= seq {
						return
					}
				case <-deadline:
					t.Fatal("the mirror does not follow")
				}
			}
		}
		until(2)
		s.equal(opt.Dir, japan)
		s.publish(day.AddDate(0, 0, 1), 1, 100, "www.waseda.ac.jp")
		until(3)
		s.equal(opt.Dir, japan)
		s.takeDown(catalog.Tombstone{Host: "www.keio.ac.jp"})
		until(4)
		s.equal(opt.Dir, japan)
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// notes reports notes to a function.
type notes func(Note)

func (notes) Begin(string, int64, int64) Bar { return silent{} }
func (notes) Feed(int64, int64)              {}
func (f notes) Note(n Note)                  { f(n) }

// TestCredentials finds the account in each of the places where it may stand.
func TestCredentials(t *testing.T) {
	s := newSite(t)
	s.publish(day, 1, 100, "www.waseda.ac.jp")
	netrc := filepath.Join(t.TempDir(), "netrc")
	if err := os.WriteFile(netrc, []byte("machine 127.0.0.1 login alice password alice\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		netrc, user, inURL, inOptions string
		ok                            bool
	}{
		{"", "", "alice:alice@", "", true},
		{"", "alice", "", "alice", true},
		{netrc, "", "", "", true},
		{netrc, "", "alice@", "", true},
		{netrc, "", "bob@", "", false},
		{"", "", "", "", false},
		{netrc, "", "alice:wrong@", "", false},
	} {
		for _, scheme := range []string{"http", "ftp"} {
			t.Setenv("NETRC", c.netrc)
			t.Setenv("HOME", t.TempDir())
			opt := s.options(scheme, t.TempDir())
			opt.URL = strings.Replace(opt.URL, "alice:alice@", c.inURL, 1)
			opt.User, opt.Password = c.user, c.inOptions
			if sum, err := Run(t.Context(), opt); (err == nil) != c.ok || c.ok && sum.Fetched != 2 {
				t.Errorf("%s with %+v: %+v, %v", scheme, c, sum, err)
			}
		}
	}
}

// TestNothingLeadsOut gives the mirror a service that names other places than its own.
func TestNothingLeadsOut(t *testing.T) {
	evil := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/") {
			io.WriteString(w, `{"events":[
				{"seq":1,"op":"put","host":"a.jp","path":"/../a/","edition":"20261101","files":[{"name":"20261101.tar.gz","size":1,"etag":"\"x\""}]},
				{"seq":2,"op":"put","host":"..","path":"/../","edition":"20261101","files":[{"name":"20261101.tar.gz","size":1,"etag":"\"x\""}]},
				{"seq":3,"op":"put","host":".sheaf-mirror","path":"/sheaf-mirror//","edition":"20261101","files":[{"name":"20261101.tar.gz","size":1,"etag":"\"x\""}]},
				{"seq":4,"op":"put","host":"a.jp","path":"/jp/a/","edition":"20261101","files":[{"name":"../20261101.tar.gz","size":1,"etag":"\"x\""},{"name":".bashrc","size":1,"etag":"\"x\""}]}
			],"next":{"since":4,"mark":"m"},"more":false,"last":4}`)
			return
		}
		w.Header().Set("ETag", `"x"`)
		io.WriteString(w, "x")
	})
	server := httptest.NewServer(evil)
	defer server.Close()
	above := t.TempDir()
	opt := Options{URL: server.URL, Dir: filepath.Join(above, "mirror"), Once: true}
	if sum, err := Run(t.Context(), opt); err != nil || sum.Fetched != 0 {
		t.Errorf("%+v, %v", sum, err)
	}
	for _, dir := range []string{above, opt.Dir} {
		if entries, _ := os.ReadDir(dir); len(entries) != 1 {
			t.Errorf("%s holds %v", dir, entries)
		}
	}
}
