package robotd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// corpus is the shared corpus of real pages, unpacked and served by the shared
// vhostd, each of its hosts on an address of its own.
type corpus struct {
	dir   string
	base  string            // of vhostd's own host, which sets the day
	addr  map[string]string // host → ip:port
	sites []corpusSite
}

// corpusSite is a line of MANIFEST.tsv.
type corpusSite struct {
	host  string
	seeds []string // paths
	reach int      // HTML files that links from the seeds lead to
}

// partOfHost is the folder of help.sakura.jp.test that is left of it in the small corpus.
const partOfHost = "/plugin/"

// smallCorpus leaves out hosts whose encodings and other peculiarities those that stay have too,
// and most of the largest of them.
var smallCorpus = append([]string{
	"aptitude.jp.test", "debref.jp.test", "devref.jp.test", "jlha.jp.test", "kyotocabinet.jp.test", "mecab.jp.test",
	"mguide.jp.test", "mhonarc.test", "policy.debian.jp.test", "qdbm.jp.test", "sylpheed.test",
	"help.sakura.jp.test/macro", "help.sakura.jp.test/sakura", "help.sakura.jp.test/*/macro", "help.sakura.jp.test/*/sakura",
}, largeHosts...)

// largeHosts are two thirds of the corpus.
var largeHosts = []string{"httpd.test", "groonga.test", "www.boost.jp.test"}

// newCorpus unpacks the corpus, without the hosts and folders left out, and starts vhostd.
func newCorpus(t *testing.T, leftOut ...string) *corpus {
	t.Helper()
	var args []string
	for _, name := range leftOut {
		args = append(args, "--exclude="+name)
	}
	c := &corpus{dir: testkit.Corpus(t, args...), addr: make(map[string]string)}
	c.readManifest(t, leftOut)
	c.serve(t)
	return c
}

// fewerLinks makes most of the 60,000 links of a page, which lead nowhere, other attributes. The
// page keeps its length of 2 MB.
func (c *corpus) fewerLinks(t *testing.T) {
	t.Helper()
	name := filepath.Join(c.dir, "derived", "edge.jp.test", "big.html")
	body, err := os.ReadFile(name)
	testkit.Must(t, err)
	links := bytes.Split(body, []byte(" href="))
	if len(links) < 60_000 {
		t.Fatalf("%s has only %d links", name, len(links)-1)
	}
	body = slices.Concat(bytes.Join(links[:300], []byte(" href=")), []byte(" name="), bytes.Join(links[300:], []byte(" name=")))
	testkit.Must(t, os.WriteFile(name, body, 0o644))
}

// readManifest reads MANIFEST.tsv and moves it away: where vhostd finds it, it
// redirects a host's top page to the start page, and the manifest's count of what can be
// reached is of the listings that it gives without.
func (c *corpus) readManifest(t *testing.T, leftOut []string) {
	t.Helper()
	name := filepath.Join(c.dir, "MANIFEST.tsv")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		f := strings.Split(line, "\t")
		if i == 0 {
			if f[0] != "host" || f[2] != "seeds" || f[5] != "reach" {
				t.Fatalf("MANIFEST.tsv has columns %q", f)
			}
			continue
		}
		if slices.Contains(leftOut, f[0]) {
			continue
		}
		reach, err := strconv.Atoi(f[5])
		if err != nil {
			t.Fatal(err)
		}
		site := corpusSite{f[0], strings.Fields(f[2]), reach}
		if slices.Contains(leftOut, site.host+"/macro") { // no page leads out of the part that is left
			site.seeds = slices.DeleteFunc(site.seeds, func(path string) bool { return !strings.HasPrefix(path, partOfHost) })
			site.reach = len(c.files(t, site.host))
		}
		c.sites = append(c.sites, site)
	}
	if err := os.Rename(name, name+".read"); err != nil {
		t.Fatal(err)
	}
}

// startVhostd runs the shared folder's server of many hosts until the test ends.
func startVhostd(t *testing.T, args ...string) *testkit.Process {
	t.Helper()
	server := testkit.Start(t, "", exec.Command(testkit.BuildShared(t, "vhostd"), args...))
	server.Ready(t, func() error {
		if said, err := os.ReadFile(server.Log); err != nil || !bytes.Contains(said, []byte("vhostd: ")) {
			return errors.New("it has not said that it listens")
		}
		return nil
	})
	return server
}

// serve starts vhostd; it ends with the test.
func (c *corpus) serve(t *testing.T) {
	t.Helper()
	base := testkit.Addresses(t, 1)[0]
	port := portOf(t, base)
	server := startVhostd(t, "-sites", filepath.Join(c.dir, "sites")+":"+filepath.Join(c.dir, "derived"),
		"-days", filepath.Join(c.dir, "days"), "-listen", base, "-perhost", port)
	c.base = "http://" + base
	said, err := os.ReadFile(server.Log)
	testkit.Must(t, err)
	for line := range strings.Lines(string(said)) { // such as "127.1.0.1 www.fml.jp.test"
		if ip, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && net.ParseIP(ip) != nil {
			c.addr[name] = net.JoinHostPort(ip, port)
		}
	}
}

// setDay changes the day that vhostd's sites live on.
func (c *corpus) setDay(t *testing.T, day int) {
	t.Helper()
	if _, body, err := c.get(t, "vhostd.test", fmt.Sprintf("/day?set=%d", day)); err != nil || strings.TrimSpace(body) != strconv.Itoa(day) {
		t.Fatalf("day %d: vhostd says %q, %v", day, body, err)
	}
}

// get asks vhostd for a page, past the robot. Redirects are answers.
func (c *corpus) get(t *testing.T, host, pathQuery string) (status int, body string, err error) {
	to := strings.TrimPrefix(c.base, "http://")
	if addr, ok := c.addr[host]; ok {
		to = addr
	}
	req := &http.Request{
		Method: http.MethodGet, Host: host, Header: make(http.Header),
		URL: &url.URL{Scheme: "http", Host: to, Opaque: "//" + host + pathQuery}, // goes out as it is written
	}
	resp, err := http.DefaultClient.Transport.RoundTrip(req.WithContext(t.Context()))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

var htmlFile = regexp.MustCompile(`(?i)\.[sx]?html?(\.[^/]*)?$`)

// files lists a site's HTML files, by their paths below the site's folder.
func (c *corpus) files(t *testing.T, host string) map[string]bool {
	t.Helper()
	files := make(map[string]bool)
	for _, of := range []string{"sites", "derived"} {
		dir := filepath.Join(c.dir, of, host)
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() && htmlFile.MatchString(p) {
				rel, _ := filepath.Rel(dir, p)
				files[rel] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// fileOf returns the file that vhostd answers a path with, by the rules in its
// source: a folder's is its index page.
func fileOf(files map[string]bool, pathQuery string) string {
	p, _, _ := strings.Cut(pathQuery, "?")
	if raw, err := url.PathUnescape(p); err == nil {
		p = raw
	}
	rel := strings.TrimPrefix(path.Clean("/"+p), "/")
	for _, index := range []string{"", "index.html", "index.htm", "index.ja.html"} {
		if name := path.Join(rel, index); files[name] {
			return name
		}
	}
	return ""
}
