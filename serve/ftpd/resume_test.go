package ftpd_test

import (
	"bytes"
	"errors"
	"io"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	client "github.com/jlaffaye/ftp"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/testkit"
	"sheaf/serve/reading"
	"sheaf/serve/servetest"
)

// refused is the reply to a resume that is none.
func refused(t *testing.T, c *client.ServerConn, name string, from uint64, says string) {
	t.Helper()
	var reply *textproto.Error
	r, err := c.RetrFrom(name, from)
	if err == nil {
		io.Copy(io.Discard, r)
		err = r.Close()
	}
	if !errors.As(err, &reply) || reply.Code != 554 || !strings.Contains(reply.Msg, says) {
		t.Errorf("RETR %s from %d: %v", name, from, err)
	}
}

// A client is never given the end of a file that it has the beginning of another version of.
func TestResumeContinuesTheSameBytes(t *testing.T) {
	s, addr := newSite(t)
	s.Account("other", "always", "jp")
	c := login(t, addr, "jp")
	const current, edition = dir + "current.warc.gz", dir + "20261121.warc.gz"
	refused(t, c, current, 100, "not known")
	whole := retr(t, c, current, 0)
	if rest := retr(t, login(t, addr, "jp"), current, 100); !bytes.Equal(rest, whole[100:]) {
		t.Errorf("of the same version: %d bytes", len(rest))
	}
	refused(t, login(t, addr, "other"), current, 100, "not known")
	old := retr(t, c, edition, 0)

	s.Publish("20261122", map[string][]*archive.Record{host: {servetest.Page("http://"+host+"/new", noise(1000), day.AddDate(0, 0, 1))}})
	refused(t, c, current, 100, "has changed")
	refused(t, c, current, uint64(len(whole)), "has changed") // all of the old one
	if rest := retr(t, c, edition, 100); !bytes.Equal(rest, old[100:]) {
		t.Error("the file of an edition does not go on")
	}
	if rest := retr(t, login(t, addr, "other"), edition, 100); !bytes.Equal(rest, old[100:]) {
		t.Error("the file of an edition does not go on with another account")
	}
	anew := retr(t, c, current, 0)
	if rest := retr(t, c, current, 100); !bytes.Equal(rest, anew[100:]) {
		t.Error("the new version does not go on")
	}

	// A take-down changes what is published already.
	_, err := s.Catalog.Remove(t.Context(), catalog.Tombstone{Host: host, Edition: "20261121", URLPrefix: "http://" + host + "/", Reason: "test"})
	if err != nil {
		t.Fatal(err)
	}
	refused(t, c, current, 100, "has changed")
}

// What people's clients make of it: they fail or begin anew, and in no case leave a
// file that is none.
func TestClientsDoNotJoinVersions(t *testing.T) {
	s, addr := newSite(t)
	s.Account("third", "always", "jp")
	old := retr(t, login(t, addr, "jp"), dir+"current.warc.gz", 0)
	s.Publish("20261122", map[string][]*archive.Record{host: {servetest.Page("http://"+host+"/new", noise(300_000), day.AddDate(0, 0, 1))}})
	want := retr(t, login(t, addr, "third"), dir+"current.warc.gz", 0)
	if len(want) <= len(old) {
		t.Fatal("the new version is not longer")
	}
	for tool, args := range map[string][]string{
		"curl": {"-sS", "-u", "jp:jp", "-C", "-", "-o", "current.warc.gz", "ftp://" + addr + dir + "current.warc.gz"},
		"wget": {"-q", "-c", "-t", "2", "--ftp-user=jp", "--ftp-password=jp", "ftp://" + addr + dir + "current.warc.gz"},
		"lftp": {"-u", "jp,jp", "ftp://" + addr, "-e", "set net:max-retries 2; set ftp:ssl-allow no; mirror -c " + dir + " .; quit"},
	} {
		t.Run(tool, func(t *testing.T) {
			to := t.TempDir()
			file := filepath.Join(to, "current.warc.gz")
			if err := os.WriteFile(file, old, 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), testkit.Tool(t, tool), args...)
			cmd.Dir = to
			out, _ := cmd.CombinedOutput()
			got, err := os.ReadFile(file)
			if err != nil || !bytes.Equal(got, old) && !bytes.Equal(got, want) {
				t.Errorf("%d bytes, neither the old nor the new version: %v\n%s", len(got), err, out)
			}
			t.Logf("kept the old one: %v; %s", bytes.Equal(got, old), out)
		})
	}
}

// Several processes over one store give the same bytes under the same tags. What one has
// sent another does not know: it goes on in files of editions, which never change, and
// refuses to in those that do until it has sent their beginning itself. By HTTP, where the
// client says what it has the beginning of, the tags tell.
func TestResumeAtAnotherNode(t *testing.T) {
	s, one := newSite(t)
	other, err := catalog.Open(t.Context(), s.Store, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	library, err := reading.New(reading.Options{Catalog: other, Store: s.Store, Accounts: s.Accounts})
	if err != nil {
		t.Fatal(err)
	}
	two := serveLibrary(t, s, library)
	tags := func(name string) (here, there string) {
		t.Helper()
		a, errA := s.Library.Tree.Stat(t.Context(), reader, name)
		b, errB := library.Tree.Stat(t.Context(), reader, name)
		if err := errors.Join(errA, errB); err != nil {
			t.Fatal(err)
		}
		return a.ETag, b.ETag
	}
	const edition = dir + "20261121.tar.gz"
	was := make(map[string]string)
	for _, name := range []string{dir + "all.tar.gz", dir + "current.warc.gz"} {
		whole := retr(t, login(t, one, "jp"), name, 0)
		refused(t, login(t, two, "jp"), name, 100, "not known")
		if again := retr(t, login(t, two, "jp"), name, 0); !bytes.Equal(again, whole) {
			t.Errorf("%s differs between nodes", name)
		}
		if rest := retr(t, login(t, two, "jp"), name, 100); !bytes.Equal(rest, whole[100:]) {
			t.Errorf("%s does not go on where it was begun", name)
		}
		here, there := tags(name)
		if here != there {
			t.Errorf("%s has the tags %s and %s", name, here, there)
		}
		was[name] = here
	}
	whole := retr(t, login(t, one, "jp"), edition, 0)
	if rest := retr(t, login(t, two, "jp"), edition, 100); !bytes.Equal(rest, whole[100:]) {
		t.Error("the file of an edition does not go on at another node")
	}
	s.Publish("20261122", map[string][]*archive.Record{host: {servetest.Page("http://"+host+"/new", noise(1000), day.AddDate(0, 0, 1))}})
	for name, tag := range was {
		refused(t, login(t, two, "jp"), name, 100, "has changed")
		if here, there := tags(name); here != there || here == tag {
			t.Errorf("%s had the tag %s, now %s and %s", name, tag, here, there)
		}
	}
}
