package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sheaf/archive/naming"
	"sheaf/ingest/inbox"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/serve/account"
)

// scenario is what happens around a death, and what must hold in the end.
type scenario struct {
	name string
	way  way // how the batch is uploaded
	act  func(*trial)
	end  func(s *trial, sheaf string)

	settings map[string]any // besides those of every installation
}

// trial is one run of a scenario with one death.
type trial struct {
	*installation
	robot    *robot
	spool    *spool
	scenario scenario
	die      *death
	state    wire.State // expected of the batch when the service has died
	batches  []*madeBatch
}

// The scenarios of the table.
var (
	sent     = scenario{"by http", byHTTP, (*trial).upload, (*trial).allPublished, nil}
	woken    = scenario{"by http, no polls", byHTTP, (*trial).upload, (*trial).allPublished, noPolls}
	packed   = scenario{"in packs", byHTTP, (*trial).upload, (*trial).allPublished, map[string]any{"packs.below": "1MiB"}}
	cut      = scenario{"by http, cut", cutHTTP, (*trial).upload, (*trial).allPublished, nil}
	dropped  = scenario{"by ftp", byFTP, (*trial).upload, (*trial).allPublished, noPolls}
	appended = scenario{"by ftp, appended", byAppend, (*trial).upload, (*trial).allPublished, nil}
	damaged  = scenario{"damaged", byHTTP, (*trial).uploadDamaged, (*trial).allPublished, nil}
	noStore  = scenario{"store down", byHTTP, (*trial).uploadWithoutStore, (*trial).allPublished, nil}
	released = scenario{"released", byHTTP, (*trial).release, (*trial).allPublished, noPolls}
	unwanted = scenario{"discarded", byHTTP, (*trial).discard, (*trial).discarded, nil}
	bare     = scenario{"by ftp, without manifest", byBareFTP, (*trial).upload, (*trial).allPublished, soonQuiet}
	aside    = scenario{"by ftp, without manifest, damaged", byBareFTP, (*trial).putAside, (*trial).asidePut, soonQuiet}
	kept     = scenario{"kept", byHTTP, (*trial).keep, (*trial).kept, nil}
	aged     = scenario{"aged", byHTTP, (*trial).age, (*trial).newestLeft, nil}

	restricted = scenario{"restricted", byHTTP, (*trial).restrict, (*trial).allPublished, nil}
)

// noPolls are the settings with which a batch is claimed only when its entering rings: never by a
// poll between the row that makes it "received" and the death after that row.
var noPolls = map[string]any{"poll": "10m"}

// soonQuiet are noPolls, and files without manifest are taken as soon as they have come.
var soonQuiet = map[string]any{"poll": "10m", "drop.quiet": "500ms"}

// load makes the trial's next batch, of two hosts of the robot or of the given ones, and puts it
// into the spool.
func (s *trial) load(damage bool, hosts ...string) *madeBatch {
	s.t.Helper()
	if hosts == nil {
		hosts = s.robot.hosts[:2]
	}
	c := s.robot.make(s.t, int64(len(s.batches)+1), 3, 8<<10, hosts...)
	if damage {
		c.damage()
	}
	testkit.Must(s.t, s.spool.add(c))
	s.batches = append(s.batches, c)
	return c
}

// drain lets the robot work until its spool is empty, and sends its error then.
func (s *trial) drain() <-chan error {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(s.t.Context(), testkit.Patience)
		defer cancel()
		done <- s.uploader(s.robot, s.spool, s.scenario.way).Drain(ctx)
	}()
	return done
}

// drained waits for the robot, and checks that each batch has left the spool once.
func (s *trial) drained(done <-chan error) {
	s.t.Helper()
	if err := <-done; err != nil {
		s.t.Fatalf("the robot: %v; %s", err, testkit.Tail(s.log))
	}
	for _, c := range s.batches {
		if good, bad := s.spool.published[c.ID], s.spool.aside[c.ID]; good+bad != 1 {
			s.t.Errorf("the robot was told %d times that %s is published, %d times that it is quarantined", good, c.ID, bad)
		}
	}
}

// died waits for the ordered death, and checks what it left.
func (s *trial) died() {
	s.t.Helper()
	if at := s.await(s.t); at != s.die.String() {
		s.t.Fatalf("the service died at %q, not %s; %s", at, s.die, testkit.Tail(s.log))
	}
	if state := s.installation.state(s.batches[0].ID); s.state != anyhow && state != s.state {
		s.t.Errorf("the dead service's batch is in state %q, want %q", state, s.state)
	}
}

func (s *trial) upload()        { s.load(false); s.uploadOne() }
func (s *trial) uploadDamaged() { s.load(true); s.uploadOne() }

func (s *trial) uploadOne() {
	s.t.Helper()
	s.start(s.die)
	done := s.drain()
	s.died()
	s.start(nil)
	s.drained(done)
}

// uploadWithoutStore uploads while a file lies where the store needs a directory.
func (s *trial) uploadWithoutStore() {
	s.t.Helper()
	s.load(false)
	segments := filepath.Join(s.data, "store", "segments")
	testkit.Must(s.t, os.MkdirAll(segments, 0o755))
	testkit.Must(s.t, os.WriteFile(filepath.Join(segments, "jp"), nil, 0o644))
	s.start(s.die)
	done := s.drain()
	s.died()
	testkit.Must(s.t, os.Remove(filepath.Join(segments, "jp")))
	s.start(nil)
	s.drained(done)
}

// decide makes the operator's decision about the quarantined batch: before the death and, because
// no answer came, after it again.
func (s *trial) decide(c *madeBatch, decision string, done func(inbox.Batch) bool) {
	s.t.Helper()
	s.start(s.die)
	s.drained(s.drain())
	path := "/v1/admin/batches/" + string(c.ID)
	if err := s.operate(http.MethodPost, path+"/"+decision, inbox.Order{By: "test"}, nil); err == nil {
		s.t.Error("the operator got an answer from a service that was to die")
	}
	s.died()
	s.start(nil)
	testkit.Eventually(s.t, decision, func() error {
		var b inbox.Batch
		if err := s.operate(http.MethodGet, path, nil, &b); err != nil {
			return err
		}
		if done(b) {
			return nil
		}
		if b.State == wire.StateQuarantined && b.Decision == "" {
			if err := s.operate(http.MethodPost, path+"/"+decision, inbox.Order{By: "test"}, nil); err != nil {
				return err
			}
		}
		return fmt.Errorf("it is %s, decision %q", b.State, b.Decision)
	})
}

func (s *trial) release() {
	c := s.load(false, "elsewhere.example.jp") // never the robot's, so nothing is left: an operator may waive that
	s.decide(c, "release", func(b inbox.Batch) bool { return b.State == wire.StatePublished })
}

func (s *trial) discard() {
	c := s.load(true)
	s.decide(c, "discard", func(b inbox.Batch) bool { return b.Decision == inbox.Discarded && b.Collected })
}

// putAside uploads a damaged file once, without a manifest. Nobody would upload it again.
func (s *trial) putAside() {
	s.t.Helper()
	s.load(true)
	s.start(s.die)
	batches, _ := s.spool.Spool()
	testkit.Must(s.t, (&barer{addr: s.settings["drop.listen"].(string), robot: s.robot}).Send(s.t.Context(), batches[0]))
	s.died()
	s.start(nil)
}

// asidePut checks that the file is in the quarantine as it came, once, and nowhere else.
func (s *trial) asidePut(sheaf string) {
	s.t.Helper()
	buffers := filepath.Join(s.data, "buffers")
	testkit.Eventually(s.t, "the file is put aside", func() error {
		if left := append(names(s.t, buffers+"/batches"), names(s.t, buffers+"/receive")...); len(left) > 0 {
			return fmt.Errorf("there is still %s", left)
		}
		return nil
	})
	if s.settings["uploads.accepted"] == "store" {
		s.checkStored(s.batches[0])
	} else {
		dirs := names(s.t, buffers+"/quarantine")
		if len(dirs) != 1 {
			s.t.Fatalf("in the quarantine lies %s; want one", dirs)
		}
		got, err := os.ReadFile(filepath.Join(dirs[0], "batch.tar.gz"))
		if err != nil || !bytes.Equal(got, s.batches[0].Data) || !exists(filepath.Join(dirs[0], "reason.json")) {
			s.t.Errorf("the quarantine has %d bytes, %v, of %d, and %s", len(got), err, len(s.batches[0].Data), names(s.t, dirs[0]))
		}
	}
	s.unpublished(sheaf)
}

// keeping is work on the catalog that does all of its writes.
var keeping = []string{"merge", "remove", "restore", "remove", "collect", "collect"}

// retaining is two collections, days apart, that keep no old edition.
var retaining = []string{"retain", "retain"}

// keep publishes two batches, and kills an operator's process while it works on the catalog.
// Readers must find one host whole, and the other whole or not at all. Then the work is done again,
// to its end.
func (s *trial) keep() {
	s.t.Helper()
	s.start(nil)
	for range 2 {
		s.load(false)
		s.drained(s.drain())
	}
	s.kill()
	testkit.Must(s.t, os.WriteFile(s.orphan(), []byte("of an attempt that failed"), 0o644))
	down, up := s.robot.hosts[0], s.robot.hosts[1]
	s.process = start(s.t, order{Settings: s.settings, Keep: keeping, Host: down, Die: s.die}, s.log)
	s.died()
	s.start(nil)
	s.checkDownloads(s.batches, up)
	if s.shows(down) {
		s.checkDownloads(s.batches, down)
	}
	s.kill()
	p := start(s.t, order{Settings: s.settings, Keep: keeping, Ahead: 100 * time.Hour, Host: down}, s.log)
	if at := p.await(s.t); at != "ended by itself: <nil>" {
		s.t.Errorf("%s: %s; %s", keeping, at, testkit.Tail(s.log))
	}
	s.start(nil)
}

// restrict hides a domain while the service dies, and another one after it. The first rule holds
// then, and both hold where the database is lost.
func (s *trial) restrict() {
	s.t.Helper()
	s.start(s.die)
	s.load(false)
	s.drained(s.drain())
	hide := func(domain string) error {
		return s.operate(http.MethodPost, api.PathAdminAccess, account.Rule{Domain: domain, Until: time.Now().Add(time.Hour), Reason: "test"}, nil)
	}
	if err := hide("first.jp"); err == nil {
		s.t.Error("the operator got an answer from a service that was to die")
	}
	s.died()
	hidden := func(when string, want ...string) {
		s.start(nil)
		var list account.RuleList
		testkit.Must(s.t, s.operate(http.MethodGet, api.PathAdminAccess, nil, &list))
		var got []string
		for _, r := range list.Rules {
			got = append(got, r.Domain)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			s.t.Errorf("%s, hidden are %s, want %s", when, got, want)
		}
	}
	hidden("after the death", "first.jp")
	testkit.Must(s.t, hide("second.jp"))
	s.kill()
	database, err := filepath.Glob(filepath.Join(s.data, "sheaf.db*")) // with its journal
	testkit.Must(s.t, err)
	aside := s.t.TempDir()
	for _, name := range database {
		testkit.Must(s.t, os.Rename(name, filepath.Join(aside, filepath.Base(name))))
	}
	s.settings["database.fresh"] = true
	hidden("in a new database", "first.jp", "second.jp")
	s.kill()
	delete(s.settings, "database.fresh")
	fresh, err := filepath.Glob(filepath.Join(s.data, "sheaf.db*"))
	testkit.Must(s.t, err)
	for _, name := range fresh {
		testkit.Must(s.t, os.Remove(name))
	}
	for _, name := range database {
		testkit.Must(s.t, os.Rename(filepath.Join(aside, filepath.Base(name)), name))
	}
	s.start(nil)
}

// age publishes three editions, lets the old ones expire until the death, and then again until
// nothing is left to do.
func (s *trial) age() {
	s.t.Helper()
	s.start(nil)
	for range 3 {
		s.load(false)
		s.drained(s.drain())
	}
	s.kill()
	s.process = start(s.t, order{Settings: s.settings, Keep: retaining, Die: s.die}, s.log)
	s.died()
	s.start(nil)
	for _, host := range s.robot.hosts {
		if !s.shows(host) {
			s.t.Errorf("%s is not shown any more", host)
		}
	}
	s.kill()
	p := start(s.t, order{Settings: s.settings, Keep: retaining, Ahead: 300 * time.Hour}, s.log)
	if at := p.await(s.t); at != "ended by itself: <nil>" {
		s.t.Errorf("%s: %s; %s", retaining, at, testkit.Tail(s.log))
	}
	s.start(nil)
}

// newestLeft checks that the newest edition of each host is there, whole, and nothing of the
// others.
func (s *trial) newestLeft(sheaf string) {
	s.t.Helper()
	newest := s.batches[len(s.batches)-1:]
	s.checkDownloads(newest)
	for _, host := range s.robot.hosts {
		if left := names(s.t, filepath.Join(s.data, "store", "segments", naming.HostPath(host))); len(left) != 1 {
			s.t.Errorf("of %s is left %s", host, left)
		}
	}
	s.kill()
	if r := s.fsck(sheaf); r.Orphans > 0 || r.Batches != 3 {
		s.t.Errorf("fsck finds %d batches and the orphans %s", r.Batches, r.OrphanKeys)
	}
}

// orphan returns the path of an object that nothing refers to.
func (s *trial) orphan() string { return filepath.Join(s.data, "store", "segments", "orphan") }

// shows reports whether consumers find the host.
func (s *trial) shows(host string) bool {
	s.t.Helper()
	resp, err := http.Get(s.url() + "/a/" + host + "/all.tar.gz")
	testkit.Must(s.t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNotFound {
		s.t.Errorf("GET of a host: %s", resp.Status)
	}
	return resp.StatusCode == http.StatusOK
}

func (s *trial) allPublished(sheaf string) {
	s.t.Helper()
	s.checkEnd(sheaf, s.batches)
}

// discarded checks that nothing is public, and that only the manifest and the reason are kept of
// the batch.
func (s *trial) discarded(sheaf string) {
	s.t.Helper()
	if s.settings["uploads.accepted"] == "store" {
		left := names(s.t, filepath.Join(s.data, "store", "incoming"))
		if len(left) != 1 || !strings.HasSuffix(left[0], ".manifest") {
			s.t.Errorf("of a discarded batch is kept %s; want the manifest and not the file", left)
		}
		s.unpublished(sheaf)
		return
	}
	dir := filepath.Join(s.data, "buffers", "quarantine", string(s.batches[0].ID))
	if exists(filepath.Join(dir, "batch.tar.gz")) || !exists(filepath.Join(dir, "manifest")) {
		s.t.Errorf("of a discarded batch is kept %s; want the manifest and not the file", names(s.t, dir))
	}
	text, err := os.ReadFile(filepath.Join(dir, "reason.json"))
	testkit.Must(s.t, errors.Join(err, json.Unmarshal(text, new(map[string]string))))
	s.unpublished(sheaf)
}

// unpublished checks, after the end, that nothing was published.
func (s *trial) unpublished(sheaf string) {
	s.t.Helper()
	s.kill()
	if r := s.fsck(sheaf); r.Versions != 0 {
		s.t.Errorf("%d versions were published", r.Versions)
	}
}

// kept checks that one host is gone, from the store too, and the other is whole.
func (s *trial) kept(sheaf string) {
	s.t.Helper()
	s.checkDownloads(s.batches, s.robot.hosts[1])
	if s.shows(s.robot.hosts[0]) {
		s.t.Error("the host that was taken down is shown")
	}
	if left := names(s.t, filepath.Join(s.data, "store", "segments", naming.HostPath(s.robot.hosts[0]))); len(left) > 0 || exists(s.orphan()) {
		s.t.Errorf("collection has left %s, or the orphan: %t", left, exists(s.orphan()))
	}
	s.kill()
	if r := s.fsck(sheaf); r.Orphans > 0 {
		s.t.Errorf("fsck finds the orphans %s", r.OrphanKeys)
	}
}
