package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/ftp"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/ftpd"
	"sheaf/serve/httpd"
	"sheaf/serve/library"
	"sheaf/serve/servetest"
	"sheaf/test/operatorstest"
)

var day = time.Date(2026, 11, 1, 3, 0, 0, 0, time.UTC)

// site is a service that a mirror follows.
type site struct {
	*servetest.Site
	testing.TB
	router  http.Handler
	between atomic.Pointer[func(http.ResponseWriter, *http.Request, http.Handler)] // may do something to a request
	server  *httptest.Server
	ftp     string // address
}

// newSite serves an archive by HTTP and FTP, with an account alice for all of jp.
func newSite(t testing.TB) *site {
	s := &site{Site: servetest.New(t, nil), TB: t}
	s.Account("alice", "always", "jp")
	s.router = s.handler()
	s.server = httptest.NewServer(s)
	t.Cleanup(func() { s.server.CloseClientConnections(); s.server.Close() })
	s.ftp = s.serveFTP(ftp.Config{})
	return s
}

// handler answers requests by HTTP out of the library that the site has now.
func (s *site) handler() http.Handler {
	router := mux.NewRouter()
	testkit.Must(s.TB, httpd.Register(router, httpd.Options{
		Library: s.Library, Accounts: s.Accounts, Recorder: s.Site.Log, Log: slog.New(slog.DiscardHandler),
		Gate: operatorstest.Shut,
	}))
	return router
}

// serveFTP serves the archive by FTP too, and gives the address.
func (s *site) serveFTP(cfg ftp.Config) string {
	s.Helper()
	h, err := ftpd.New(ftpd.Options{Tree: s.Library.Tree, Accounts: s.Accounts, Recorder: s.Site.Log, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	cfg.Listener, cfg.StopTimeout, cfg.MaxPerAccount, cfg.MaxPerAddr, cfg.Log = l, time.Second, 100, 100, slog.New(slog.DiscardHandler)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ftp.Run(ctx, cfg, h) }()
	s.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	})
	return l.Addr().String()
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f := s.between.Load(); f != nil {
		(*f)(w, r, s.router)
		return
	}
	s.router.ServeHTTP(w, r)
}

// intercept lets f answer requests from now on.
func (s *site) intercept(f func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	s.between.Store(&f)
}

// url gives the service's URL with an account whose password is its name.
func (s *site) url(scheme, account string) string {
	if scheme == "ftp" {
		return "ftp://" + account + ":" + account + "@" + s.ftp
	}
	return strings.Replace(s.server.URL, "http://", "http://"+account+":"+account+"@", 1)
}

// options are those of a mirror that ends when it has everything, and does not wait long.
func (s *site) options(scheme, dir string) Options {
	return Options{URL: s.url(scheme, "alice"), Dir: dir, Once: true, Patience: 20 * time.Second, Backoff: 5 * time.Millisecond, Forms: []string{".tar.gz", ".warc.gz"}}
}

// mirror runs a mirror and expects it to succeed.
func (s *site) mirror(opt Options) Summary {
	s.Helper()
	sum, err := Run(s.Context(), opt)
	if err != nil {
		s.Fatal(err)
	}
	return sum
}

// publish publishes an edition of n pages of each host; noise makes them large.
func (s *site) publish(at time.Time, pages, noise int, hosts ...string) string {
	s.Helper()
	return s.Publish(at.Format("20060102"), records(at, pages, noise, hosts...))
}

func records(at time.Time, pages, noise int, hosts ...string) map[string][]*archive.Record {
	random := rand.New(rand.NewPCG(uint64(at.Unix()), uint64(noise)))
	of := map[string][]*archive.Record{}
	for _, host := range hosts {
		for i := range pages {
			body := make([]byte, noise+20)
			for j := range body {
				body[j] = byte(' ' + random.IntN(90))
			}
			of[host] = append(of[host], servetest.Page(fmt.Sprintf("http://%s/p%d.html", host, i), string(body), at))
		}
	}
	return of
}

// tree gives the edition files that an account sees, of these forms, as "path size time" to
// content.
func (s *site) tree(a *account.Account, forms ...string) map[string][]byte {
	s.Helper()
	all := map[string][]byte{}
	var walk func(dir string)
	walk = func(dir string) {
		for n, err := range s.Library.Tree.List(s.Context(), a, dir) {
			if errors.Is(err, library.ErrNotFound) {
				return
			}
			if err != nil {
				s.Fatal(err)
			}
			switch name := dir + n.Name; {
			case n.Dir && name != "/days" && name != "/editions" && name != "/feed":
				walk(name + "/")
			case !n.Dir && kept(forms, n.Name):
				f, err := s.Library.Tree.Open(s.Context(), a, name)
				if err != nil {
					s.Fatal(err)
				}
				r, err := f.OpenRange(s.Context(), 0, f.Size)
				if err != nil {
					s.Fatal(err)
				}
				data, err := io.ReadAll(r)
				if err := errors.Join(err, r.Close(), f.Close()); err != nil {
					s.Fatal(err)
				}
				all[name+" "+n.Modified.UTC().String()] = data
			}
		}
	}
	walk("/")
	return all
}

var japan = &account.Account{Name: "alice", Domains: []string{"jp"}}

// equal expects the directory to hold exactly what the tree does, and its own lists to fit.
func (s *site) equal(dir string, a *account.Account, forms ...string) {
	s.Helper()
	if len(forms) == 0 {
		forms = []string{".tar.gz", ".warc.gz"}
	}
	want := s.tree(a, forms...)
	got := map[string][]byte{}
	listed := 0
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := "/" + filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(name, dir), "/"))
		switch {
		case d.IsDir() && d.Name() == ownDir:
			return fs.SkipDir
		case d.IsDir():
			entries, err := os.ReadDir(name)
			if len(entries) == 0 {
				s.Errorf("%s is empty", rel)
			}
			return err
		case d.Name() == sumsFile:
			sums, err := os.ReadFile(name)
			listed += bytes.Count(sums, []byte("\n"))
			return err
		case d.Name() == manifestFile:
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		got[rel+" "+info.ModTime().UTC().String()] = data
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
	for name, data := range want {
		if is, ok := got[name]; !ok || !bytes.Equal(is, data) {
			s.Errorf("%s has not, or not as the service: %s", dir, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			s.Errorf("%s has, and not the service: %s", dir, name)
		}
	}
	if s.Failed() {
		s.FailNow()
	}
	if listed > len(got) {
		s.Errorf("SHA256SUMS list %d files of %d", listed, len(got))
	}
}

func (s *site) takeDown(t catalog.Tombstone) {
	s.Helper()
	t.Reason, t.By = "r", "b"
	if _, err := s.Catalog.Remove(s.Context(), t); err != nil {
		s.Fatal(err)
	}
}

// each runs a test by either protocol.
func each(t *testing.T, f func(t *testing.T, scheme string)) {
	for _, scheme := range []string{"http", "ftp"} {
		t.Run(scheme, func(t *testing.T) { f(t, scheme) })
	}
}
