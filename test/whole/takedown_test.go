package whole

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jlaffaye/ftp"

	"sheaf/archive/catalog"
	"sheaf/archive/upkeep"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/robotd/batch"
	"sheaf/test/batchtest"
	"sheaf/test/servicetest"
)

const (
	bad  = "www.bad.example.jp"
	good = "www.good.example.jp"
)

// withdrawer is a running service with one robot.
type withdrawer struct {
	*testing.T
	addr   service.Addresses
	admin  *servicetest.Service
	hosts  []string
	robot  *batchtest.Robots
	secret string
	server ed25519.PublicKey

	withdrawn int // events of the feed that say that something was removed
}

// startWithdrawer starts one whose robot has the hosts bad and good.
func startWithdrawer(t *testing.T, settings map[string]any, options ...service.Option) *withdrawer {
	return startWithdrawerOf(t, []string{bad, good}, settings, options...)
}

func startWithdrawerOf(t *testing.T, hosts []string, settings map[string]any, options ...service.Option) *withdrawer {
	all := map[string]any{"access.anonymous": "*", "poll": "50ms"}
	maps.Copy(all, settings)
	s := servicetest.Start(t, all, options...)
	h := &withdrawer{T: t, addr: s.At, admin: s, hosts: hosts, robot: batchtest.NewRobots(t)}
	h.join()
	return h
}

// join admits the robot, with all hosts.
func (h *withdrawer) join() {
	var admitted manager.AdmitResponse
	h.operate(http.MethodPost, api.PathAdminRobots, manager.AdmitRequest{Name: h.robot.Name}, &admitted)
	var joined wire.JoinResponse
	h.ask(http.MethodPost, wire.PathJoin, wire.JoinRequest{Token: admitted.Token, Version: "test", PublicKey: h.robot.Key.Public().(ed25519.PublicKey)}, &joined)
	h.secret, h.server = joined.Secret, joined.ServerKey
	h.ask(http.MethodPost, strings.ReplaceAll(wire.PathSubscribe, "{robot}", h.robot.Name), nil, nil)
	add := manager.HostsRequest{Addresses: map[string][]string{}}
	for i, host := range h.hosts {
		add.Hosts = append(add.Hosts, "http://"+host+"/")
		add.Addresses[host] = []string{fmt.Sprintf("192.0.2.%d", i+1)}
	}
	h.operate(http.MethodPost, api.PathAdminHosts, add, nil)
	list := h.ask(http.MethodGet, strings.ReplaceAll(wire.PathList, "{robot}", h.robot.Name), nil, nil)
	_, err := fmt.Sscan(list.Header.Get(wire.HeaderGeneration), &h.robot.Generation)
	testkit.Must(h, err)
}

func (h *withdrawer) operate(method, path string, in, out any) {
	h.Helper()
	testkit.Must(h, h.admin.Do(h.Context(), method, path, in, out))
}

// ask sends a robot's request.
func (h *withdrawer) ask(method, path string, in, out any) *http.Response {
	h.Helper()
	text, err := json.Marshal(in)
	testkit.Must(h, err)
	req, err := http.NewRequestWithContext(h.Context(), method, h.addr.HTTP+path, bytes.NewReader(text))
	testkit.Must(h, err)
	req.SetBasicAuth(h.robot.Name, h.secret)
	resp, err := http.DefaultClient.Do(req)
	testkit.Must(h, err)
	h.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode >= 300 {
		h.Fatalf("%s %s: %s", method, path, resp.Status)
	}
	if out != nil {
		testkit.Must(h, json.NewDecoder(resp.Body).Decode(out))
	}
	return resp
}

// bring uploads a batch of all hosts with robotd's own uploader, and publishes it.
func (h *withdrawer) bring(n int64) {
	h.Helper()
	var sites []batchtest.Host
	for _, host := range h.hosts {
		sites = append(sites, batchtest.Site(host, 4))
	}
	b := batchtest.Make(h, h.robot, n, sites...)
	s := &spool{b: batch.Spooled{ID: b.ID, Path: filepath.Join(h.TempDir(), "batch"), Size: b.Manifest.Size, SHA256: b.Manifest.SHA256, Signed: b.Signed}}
	testkit.Must(h, os.WriteFile(s.b.Path, b.Data, 0o600))
	desk := &batch.HTTP{Base: h.addr.HTTP, Robot: h.robot.Name, Secret: h.secret, Key: wire.OneKey(h.server), Client: http.DefaultClient}
	u := batch.NewUploader(batch.UploaderOptions{Spool: s, Targets: []batch.Target{desk}, Receipts: desk, Poll: 20 * time.Millisecond, BackOff: 10 * time.Millisecond})
	ctx, cancel := context.WithTimeout(h.Context(), testkit.Patience)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- u.Drain(ctx) }()
	testkit.Until(h, "the batch is published", func() bool {
		var p struct{ Batches int }
		testkit.Must(h, h.admin.Do(ctx, http.MethodPost, "/v1/admin/publish", nil, &p))
		return p.Batches > 0
	})
	testkit.Must(h, <-done)
	if s.ended != "published" {
		h.Fatalf("batch %s ended as %q", b.ID, s.ended)
	}
}

// spool holds the batch.
type spool struct {
	b     batch.Spooled
	ended string
}

func (s *spool) Spool() ([]batch.Spooled, error) {
	if s.ended != "" {
		return nil, nil
	}
	return []batch.Spooled{s.b}, nil
}

func (s *spool) Remove(wire.BatchID) error                   { s.ended = "published"; return nil }
func (s *spool) Quarantine(_ wire.BatchID, why string) error { s.ended = why; return nil }

// tree fetches every file that a reader finds, by FTP, and again by HTTP, with the forms that are
// not listed. It returns compressed files inflated.
func (h *withdrawer) tree() map[string]string {
	h.Helper()
	conn, err := ftp.Dial(h.addr.Download, ftp.DialWithTimeout(testkit.Patience))
	testkit.Must(h, err)
	defer conn.Quit()
	testkit.Must(h, conn.Login("anonymous", "reader@example.jp"))
	files := map[string]string{}
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := conn.List(dir)
		testkit.Must(h, err)
		for _, e := range entries {
			p := path.Join(dir, e.Name)
			if e.Type == ftp.EntryTypeFolder {
				walk(p)
				continue
			}
			r, err := conn.Retr(p)
			testkit.Must(h, err)
			data, err := io.ReadAll(r)
			testkit.Must(h, err)
			testkit.Must(h, r.Close())
			files["ftp "+p] = inflated(h, data)
			names := []string{p}
			if base, ok := strings.CutSuffix(p, ".warc.gz"); ok && !strings.HasPrefix(p, "/days/") {
				names = append(names, base+".cdxj", base+".members.tar.gz")
			}
			for _, name := range names {
				text, status := h.get("/pub" + name)
				if status != http.StatusOK {
					h.Errorf("%s: status %d", name, status)
				}
				files["http "+name] = text
			}
			for _, way := range []string{"ftp ", "http "} {
				if strings.HasPrefix(p, "/feed/") {
					files[way+p] = h.brought(files[way+p])
				}
			}
		}
	}
	walk("/")
	files["http hosts"], _ = h.get("/v1/hosts")
	return files
}

// brought returns a feed's lines without those that say what was removed. A mirror uses these to
// delete files, so they name the file, and nothing more of it.
func (h *withdrawer) brought(feed string) (rest string) {
	h.Helper()
	for line := range strings.Lines(feed) {
		var e struct {
			Op      string
			Files   []any
			Batch   string
			Records int64
		}
		if json.Unmarshal([]byte(line), &e) != nil || e.Op != "delete" && e.Op != "reseal" {
			rest += line
			continue
		}
		h.withdrawn++
		if e.Files != nil || e.Batch != "" || e.Records != 0 {
			h.Errorf("what went is told with what it was: %s", line)
		}
	}
	return rest
}

func (h *withdrawer) get(path string) (text string, status int) {
	h.Helper()
	resp, err := http.Get(h.addr.HTTP + path)
	testkit.Must(h, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	testkit.Must(h, err)
	return inflated(h, data), resp.StatusCode
}

func inflated(t testing.TB, data []byte) string {
	if !bytes.HasPrefix(data, []byte("\x1f\x8b")) {
		return string(data)
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	testkit.Must(t, err)
	out, err := io.ReadAll(r)
	testkit.Must(t, err)
	return string(out)
}

// holding returns the files whose name or text contains a word.
func holding(files map[string]string, word string) (names []string) {
	for name, text := range files {
		if strings.Contains(name, word) || strings.Contains(text, word) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestTakedown(t *testing.T) {
	t.Parallel()
	h := startWithdrawer(t, nil)
	h.bring(1)
	const badPath, page = "/jp/example/bad/", "http://" + good + "/1.html"
	before := h.tree()
	if len(holding(before, bad)) == 0 || len(holding(before, badPath)) == 0 || len(holding(before, page)) < 4 {
		t.Fatalf("before: %q", holding(before, ""))
	}
	for says, s := range map[string]upkeep.TakedownRequest{
		"unknown_host": {Host: "www.god.example.jp", Reason: "misspelt"}, "unknown_edition": {Host: good, Edition: "19990101", Reason: "misspelt"},
	} {
		if err := h.admin.Do(t.Context(), http.MethodPost, "/v1/admin/takedowns", s, nil); err == nil || !strings.Contains(err.Error(), "nothing of the host") {
			t.Errorf("%s: %v", says, err)
		}
	}
	for name, s := range map[string]upkeep.TakedownRequest{
		"host": {Host: bad, Reason: "court", By: "op"}, "page": {Host: good, URLPrefix: page, Reason: "privacy", By: "op"},
	} {
		t.Log("take down", name)
		h.operate(http.MethodPost, "/v1/admin/takedowns", s, nil)
	}
	gone := func(when string) {
		t.Helper()
		files := h.tree()
		for _, word := range []string{bad, badPath, page, bad + ", page", good + ", page 1 "} {
			if names := holding(files, word); len(names) > 0 {
				t.Errorf("%s: %q is in %q", when, word, names)
			}
		}
		if names := holding(files, good+", page 2 "); len(names) < 6 {
			t.Errorf("%s: the other pages are only in %q", when, names)
		}
		for _, name := range []string{"all.tar.gz", "current.warc.gz", "all.cdxj", "MANIFEST"} {
			if _, status := h.get("/pub" + badPath + "www/" + name); status != http.StatusNotFound {
				t.Errorf("%s: %s has status %d", when, name, status)
			}
		}
	}
	gone("of what was there")
	if h.withdrawn != 4 { // a host and a page, by FTP and by HTTP
		t.Errorf("the feed says %d times that something went, want 4", h.withdrawn)
	}
	h.bring(2)
	gone("of a late batch")
	var swept catalog.Collection
	h.operate(http.MethodPost, "/v1/admin/gc", map[string]bool{"dry_run": true}, &swept)
	if swept.Condemned.Objects < 2 || swept.Condemned.Some[0].Reason != catalog.ReasonTakenDown || swept.URLs != 1 {
		t.Errorf("collection of what is taken down: %+v", swept)
	}
	h.operate(http.MethodPost, "/v1/admin/takedowns/lift", upkeep.TakedownRequest{Host: bad, Reason: "appeal", By: "op"}, nil)
	after := h.tree()
	if names := holding(after, badPath+"www/all"); len(names) != 6 {
		t.Errorf("after the lift: %q", names)
	}
	if names := holding(after, page); len(names) > 0 {
		t.Errorf("the page is in %q", names)
	}
	var record []catalog.Tombstone
	h.operate(http.MethodGet, "/v1/admin/takedowns?host="+bad, nil, &record)
	if len(record) != 2 || record[0].Reason != "court" || record[1].Act != catalog.Lift || record[1].Reason != "appeal" {
		t.Errorf("on record: %+v", record)
	}
}
