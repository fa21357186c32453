package ftpd_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/textproto"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	client "github.com/jlaffaye/ftp"

	"sheaf/archive"
	"sheaf/internal/ftp"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/serve/account"
	"sheaf/serve/ftpd"
	"sheaf/serve/reading"
	"sheaf/serve/servetest"
)

var (
	day    = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	reader = &account.Account{Name: "jp", Domains: []string{"jp"}}
)

const (
	host = "www.waseda.ac.jp"
	dir  = "/jp/ac/waseda/www/"
)

// newSite serves a site with the accounts jp and shut, whose window never opens.
func newSite(t *testing.T) (*servetest.Site, string) {
	s := servetest.New(t, nil)
	s.Account("jp", "always", "jp")
	s.Account("shut", "never", "jp")
	s.Publish("20261121", map[string][]*archive.Record{
		host:          {servetest.Page("http://"+host+"/", strings.Repeat("home ", 40_000), day)},
		"example.com": {servetest.Page("http://example.com/", "not japan", day)},
	})
	return s, serveLibrary(t, s, s.Library)
}

// serveLibrary serves a site by a library, and returns where.
func serveLibrary(t *testing.T, s *servetest.Site, library *reading.Library) string {
	t.Helper()
	h, err := ftpd.New(ftpd.Options{Tree: library.Tree, Contact: library.Contact, Accounts: s.Accounts, Recorder: s.Log, Running: s.Running})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- ftp.Run(ctx, ftp.Config{Listener: l, StopTimeout: time.Second}, h) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func login(t *testing.T, addr, name string) *client.ServerConn {
	t.Helper()
	c, err := client.Dial(addr, client.DialWithTimeout(testkit.Patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Quit() })
	if err := c.Login(name, name); err != nil {
		t.Fatal(err)
	}
	return c
}

func retr(t *testing.T, c *client.ServerConn, name string, from uint64) []byte {
	t.Helper()
	r, err := c.RetrFrom(name, from)
	if err != nil {
		t.Fatalf("RETR %s: %v", name, err)
	}
	data, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatalf("RETR %s: %v", name, err)
	}
	return data
}

// The tree that FTP shows must be the library's, names, sizes, times and bytes.
func TestTreeIsTheLibrarys(t *testing.T) {
	s, addr := newSite(t)
	c := login(t, addr, "jp")
	files := 0
	var walk func(name string)
	walk = func(name string) {
		listed, err := c.List(name)
		if err != nil {
			t.Fatal(err)
		}
		entries := make(map[string]*client.Entry)
		for _, e := range listed {
			if e.Name != "." && e.Name != ".." {
				entries[e.Name] = e
			}
		}
		seen := 0
		for n, err := range s.Library.Tree.List(t.Context(), reader, name) {
			if err != nil {
				t.Fatal(err)
			}
			seen++
			e := entries[n.Name]
			if e == nil || (e.Type == client.EntryTypeFolder) != n.Dir || !n.Dir && e.Size != uint64(n.Size) || !e.Time.Equal(n.Modified) {
				t.Errorf("%s: FTP lists %+v, the library %+v", name, e, n)
			}
			if n.Dir {
				walk(path.Join(name, n.Name))
				continue
			}
			files++
			f, err := s.Library.Tree.Open(t.Context(), reader, path.Join(name, n.Name))
			if err != nil {
				t.Fatal(err)
			}
			r, err := f.OpenRange(t.Context(), 0, f.Size)
			if err != nil {
				t.Fatal(err)
			}
			want, err := io.ReadAll(r)
			if err := errors.Join(err, r.Close(), f.Close()); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(retr(t, c, path.Join(name, n.Name), 0), want) {
				t.Errorf("%s/%s differs", name, n.Name)
			}
		}
		if seen != len(entries) {
			t.Errorf("%s: FTP lists %d entries, the library %d", name, len(entries), seen)
		}
	}
	walk("/")
	if files != 2+4+4+8+2+1 { // of the root, the edition, its volume, the host and the feed
		t.Errorf("%d files", files)
	}
}

func TestResume(t *testing.T) {
	_, addr := newSite(t)
	c := login(t, addr, "jp")
	for _, name := range []string{"20261121.tar.gz", "20261121.members.tar.gz", "20261121.warc.gz"} {
		whole := retr(t, c, dir+name, 0)
		if rest := retr(t, c, dir+name, 100); !bytes.Equal(rest, whole[100:]) {
			t.Errorf("%s from 100: %d bytes, want %d", name, len(rest), len(whole)-100)
		}
	}
}

func TestRefusals(t *testing.T) {
	_, addr := newSite(t)
	code := func(err error) int {
		var reply *textproto.Error
		errors.As(err, &reply)
		if reply == nil {
			return 0
		}
		return reply.Code
	}
	c, err := client.Dial(addr, client.DialWithTimeout(testkit.Patience))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Quit()
	if err := c.Login("anonymous", "me@example.jp"); code(err) != 530 {
		t.Errorf("anonymous: %v", err)
	}
	c = login(t, addr, "jp")
	for _, name := range []string{"/com/example/20261121.tar.gz", dir + "20261122.tar.gz", "/jp"} {
		if _, err := c.Retr(name); code(err) != 550 {
			t.Errorf("RETR %s: %v", name, err)
		}
	}
	if err := c.Stor("/x", strings.NewReader("x")); code(err) != 550 {
		t.Errorf("STOR: %v", err)
	}
	shut := login(t, addr, "shut")
	if _, err := shut.Retr(dir + "20261121.tar.gz"); code(err) != 450 {
		t.Errorf("RETR outside the window: %v", err)
	}
	if entries, err := shut.List(dir); err != nil || len(entries) < 8 {
		t.Errorf("LIST outside the window: %v, %v", entries, err)
	}
	if data := retr(t, shut, "/README", 0); !bytes.Contains(data, []byte("when        never")) {
		t.Errorf("%s", data)
	}
}

func TestDownloadsAreRecorded(t *testing.T) {
	s, addr := newSite(t)
	c := login(t, addr, "jp")
	whole := retr(t, c, dir+"20261121.tar.gz", 0)
	list := s.Downloads(transfers.Filter{Who: "jp"})
	if len(list) != 1 || list[0].Bytes != int64(len(whole)) || list[0].Name != dir+"20261121.tar.gz" ||
		list[0].Protocol != "ftp" || list[0].Outcome != transfers.OK {
		t.Errorf("%+v", list)
	}
}

func TestPublishDuringDownload(t *testing.T) {
	s, addr := newSite(t)
	c := login(t, addr, "jp")
	want := retr(t, c, dir+"current.warc.gz", 0)
	r, err := c.Retr(dir + "current.warc.gz")
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 100)
	if _, err := io.ReadFull(r, got); err != nil {
		t.Fatal(err)
	}
	s.Publish("20261122", map[string][]*archive.Record{host: {servetest.Page("http://"+host+"/", "new home", day.AddDate(0, 0, 1))}})
	rest, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil || !bytes.Equal(append(got, rest...), want) {
		t.Errorf("the download changed: %v", err)
	}
}

func TestLftpMirror(t *testing.T) {
	s, addr := newSite(t)
	to := t.TempDir()
	mirror := func() { // in folders that may be written to, other than the service's
		testkit.Run(t, to, "lftp", "-e", "set net:max-retries 2; set ftp:ssl-allow no; mirror -c --no-perms --verbose=0 / .; quit", "-u", "jp,jp", "ftp://"+addr)
	}
	mirror()
	whole, err := os.ReadFile(filepath.Join(to, dir, "20261121.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	testkit.Run(t, filepath.Join(to, dir), "sha256sum", "--quiet", "-c", "SHA256SUMS")
	testkit.Run(t, filepath.Join(to, dir), "tar", "xzf", "current.tar.gz")
	if body, err := os.ReadFile(filepath.Join(to, dir, host, "index.html")); err != nil || string(body) != strings.Repeat("home ", 40_000) {
		t.Errorf("index.html has %d bytes, %v", len(body), err)
	}
	before := s.Downloads(transfers.Filter{})
	mirror() // everything is there: nothing may be fetched again
	if after := s.Downloads(transfers.Filter{}); len(after) != len(before) {
		t.Errorf("the second mirror fetched %d files", len(after)-len(before))
	}
	if len(whole) == 0 {
		t.Error("the archive is empty")
	}
}

func TestCurlResume(t *testing.T) {
	_, addr := newSite(t)
	want := retr(t, login(t, addr, "jp"), dir+"20261121.tar.gz", 0)
	for tool, args := range map[string][]string{
		"curl": {"-sS", "-u", "jp:jp", "-C", "-", "-o", "20261121.tar.gz"},
		"wget": {"-q", "-c", "--ftp-user=jp", "--ftp-password=jp"},
	} {
		t.Run(tool, func(t *testing.T) {
			to := t.TempDir()
			file := filepath.Join(to, "20261121.tar.gz")
			if err := os.WriteFile(file, want[:len(want)/2], 0o644); err != nil {
				t.Fatal(err)
			}
			testkit.Run(t, to, tool, append(args, "ftp://"+addr+dir+"20261121.tar.gz")...)
			if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, want %d, %v", len(got), len(want), err)
			}
		})
	}
}
