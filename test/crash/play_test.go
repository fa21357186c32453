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
	"time"

	"sheaf/archive"
	"sheaf/ingest/ledger"
	"sheaf/ingest/quarantine"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// play is what happens around a death, and what must hold in the end.
type play struct {
	name string
	way  way // in which the batch is brought
	act  func(*scene)
	end  func(s *scene, sheaf string)

	settings map[string]any // beside those that every house has
}

// scene is one case under way.
type scene struct {
	*house
	robot   *robot
	spool   *spool
	play    play
	die     *death
	state   wire.State // of the batch when the service has died
	cargoes []*cargo
}

// The plays of the table.
var (
	sent     = play{"by http", byHTTP, (*scene).upload, (*scene).allPublished, nil}
	woken    = play{"by http, no polls", byHTTP, (*scene).upload, (*scene).allPublished, map[string]any{"poll": "10m"}} // so that a claim is the batch's
	packed   = play{"in packs", byHTTP, (*scene).upload, (*scene).allPublished, map[string]any{"packs.below": "1MiB", "packs.size": "1MiB"}}
	cut      = play{"by http, cut", cutHTTP, (*scene).upload, (*scene).allPublished, nil}
	dropped  = play{"by ftp", byFTP, (*scene).upload, (*scene).allPublished, nil}
	appended = play{"by ftp, appended", byAppend, (*scene).upload, (*scene).allPublished, nil}
	damaged  = play{"damaged", byHTTP, (*scene).uploadDamaged, (*scene).allPublished, nil}
	noStore  = play{"store down", byHTTP, (*scene).uploadWithoutStore, (*scene).allPublished, nil}
	released = play{"released", byHTTP, (*scene).release, (*scene).allPublished, nil}
	unwanted = play{"discarded", byHTTP, (*scene).discard, (*scene).discarded, nil}
	bare     = play{"by ftp, without manifest", byBareFTP, (*scene).upload, (*scene).allPublished, soonQuiet}
	aside    = play{"by ftp, without manifest, damaged", byBareFTP, (*scene).putAside, (*scene).asidePut, soonQuiet}
	kept     = play{"kept", byHTTP, (*scene).keep, (*scene).kept, nil}
	aged     = play{"aged", byHTTP, (*scene).age, (*scene).newestLeft, nil}
)

// soonQuiet has files without manifest taken as soon as they have come.
var soonQuiet = map[string]any{"drop.quiet": "500ms"}

// load makes the scene's next batch, of all hosts of the robot and more, and puts it into the spool.
func (s *scene) load(damage bool, more ...string) *cargo {
	s.t.Helper()
	c := s.robot.make(s.t, int64(len(s.cargoes)+1), 3, 8<<10, append(s.robot.hosts[:2:2], more...)...)
	if damage {
		c.damage()
	}
	testkit.Must(s.t, s.spool.add(c))
	s.cargoes = append(s.cargoes, c)
	return c
}

// drain lets the robot work until its spool is empty, and gives its error then.
func (s *scene) drain() <-chan error {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(s.t.Context(), testkit.Patience)
		defer cancel()
		done <- s.uploader(s.robot, s.spool, s.play.way).Drain(ctx)
	}()
	return done
}

// drained waits for the robot, and checks that each batch has left the spool once.
func (s *scene) drained(done <-chan error) {
	s.t.Helper()
	if err := <-done; err != nil {
		s.t.Fatalf("the robot: %v; %s", err, testkit.Tail(s.log))
	}
	for _, c := range s.cargoes {
		if good, bad := s.spool.published[c.ID], s.spool.aside[c.ID]; good+bad != 1 {
			s.t.Errorf("the robot was told %d times that %s is published, %d times that it is quarantined", good, c.ID, bad)
		}
	}
}

// died waits for the ordered death, and looks at what it left.
func (s *scene) died() {
	s.t.Helper()
	if at := s.await(s.t, s.log); at != s.die.String() {
		s.t.Fatalf("the service died at %q, not %s; %s", at, s.die, testkit.Tail(s.log))
	}
	if state := s.house.state(s.cargoes[0].ID); s.state != anyhow && state != s.state {
		s.t.Errorf("the dead service's batch is in state %q, want %q", state, s.state)
	}
}

func (s *scene) upload()        { s.load(false); s.uploadOne() }
func (s *scene) uploadDamaged() { s.load(true); s.uploadOne() }

func (s *scene) uploadOne() {
	s.t.Helper()
	s.start(s.die)
	done := s.drain()
	s.died()
	s.start(nil)
	s.drained(done)
}

// uploadWithoutStore has a file lie where the store wants a directory.
func (s *scene) uploadWithoutStore() {
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

// decide lets the operator decide about the quarantined batch until it is done,
// once before the death and, as an operator does who got no answer, after it.
func (s *scene) decide(c *cargo, decision string, done func(ledger.Batch) bool) {
	s.t.Helper()
	s.start(s.die)
	s.drained(s.drain())
	path := "/v1/admin/batches/" + string(c.ID)
	if err := s.operate(http.MethodPost, path+"/"+decision, quarantine.Word{By: "test"}, nil); err == nil {
		s.t.Error("the operator got an answer from a service that was to die")
	}
	s.died()
	s.start(nil)
	testkit.Eventually(s.t, decision, func() error {
		var b ledger.Batch
		if err := s.operate(http.MethodGet, path, nil, &b); err != nil {
			return err
		}
		if done(b) {
			return nil
		}
		if b.State == wire.StateQuarantined && b.Decision == "" {
			if err := s.operate(http.MethodPost, path+"/"+decision, quarantine.Word{By: "test"}, nil); err != nil {
				return err
			}
		}
		return fmt.Errorf("it is %s, decision %q", b.State, b.Decision)
	})
}

func (s *scene) release() {
	c := s.load(false, "elsewhere.example.jp") // not the robot's host: a judgement, which an operator may set aside
	s.decide(c, "release", func(b ledger.Batch) bool { return b.State == wire.StatePublished })
}

func (s *scene) discard() {
	c := s.load(true)
	s.decide(c, "discard", func(b ledger.Batch) bool { return b.Decision == ledger.Discarded && b.Collected })
}

// putAside brings a damaged file once, for which no manifest ever comes: nobody would bring it again.
func (s *scene) putAside() {
	s.t.Helper()
	s.load(true)
	s.start(s.die)
	batches, _ := s.spool.Spool()
	testkit.Must(s.t, (&barer{addr: s.settings["drop.listen"].(string), robot: s.robot}).Send(s.t.Context(), batches[0]))
	s.died()
	s.start(nil)
}

// asidePut: the file lies in the quarantine as it came, once, and nowhere else.
func (s *scene) asidePut(sheaf string) {
	s.t.Helper()
	buffers := filepath.Join(s.data, "buffers")
	testkit.Eventually(s.t, "the file is put aside", func() error {
		if left := append(names(s.t, buffers+"/batches"), names(s.t, buffers+"/receive")...); len(left) > 0 {
			return fmt.Errorf("there is still %s", left)
		}
		return nil
	})
	dirs := names(s.t, buffers+"/quarantine")
	if len(dirs) != 1 {
		s.t.Fatalf("in the quarantine lies %s; want one", dirs)
	}
	got, err := os.ReadFile(filepath.Join(dirs[0], "batch.tar.gz"))
	if err != nil || !bytes.Equal(got, s.cargoes[0].Data) || !exists(filepath.Join(dirs[0], "reason.json")) {
		s.t.Errorf("the quarantine has %d bytes, %v, of %d, and %s", len(got), err, len(s.cargoes[0].Data), names(s.t, dirs[0]))
	}
	s.kill()
	if r := s.fsck(sheaf); r.Versions != 0 {
		s.t.Errorf("%d versions were published", r.Versions)
	}
}

// keeping is work on the catalog that meets all of its writes.
var keeping = []string{"merge", "remove", "restore", "remove", "collect", "collect"}

// retaining is collection, days apart, that keeps no old edition.
var retaining = []string{"retain", "retain"}

// keep has two batches published, and lets an operator's process die at its work on
// the catalog. Readers must find the one host whole, and the other whole or not at all.
// Then the work is done again, to its end.
func (s *scene) keep() {
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
	s.checkDownloads(s.cargoes, up)
	if s.shows(down) {
		s.checkDownloads(s.cargoes, down)
	}
	s.kill()
	p := start(s.t, order{Settings: s.settings, Keep: keeping, Ahead: 100 * time.Hour, Host: down}, s.log)
	if at := p.await(s.t, s.log); at != "ended by itself: <nil>" {
		s.t.Errorf("%s: %s; %s", keeping, at, testkit.Tail(s.log))
	}
	s.start(nil)
}

// age brings three editions, lets the old ones expire until the death, and then again until nothing is left to do.
func (s *scene) age() {
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
	if at := p.await(s.t, s.log); at != "ended by itself: <nil>" {
		s.t.Errorf("%s: %s; %s", retaining, at, testkit.Tail(s.log))
	}
	s.start(nil)
}

// newestLeft: of each host the newest edition is there, whole, and nothing of the others.
func (s *scene) newestLeft(sheaf string) {
	s.t.Helper()
	newest := s.cargoes[len(s.cargoes)-1:]
	s.checkDownloads(newest)
	for _, host := range s.robot.hosts {
		if left := names(s.t, filepath.Join(s.data, "store", "segments", archive.HostPath(host))); len(left) != 1 {
			s.t.Errorf("of %s is left %s", host, left)
		}
	}
	s.kill()
	if r := s.fsck(sheaf); r.Orphans > 0 || r.Batches != 3 {
		s.t.Errorf("fsck finds %d batches and the orphans %s", r.Batches, r.OrphanKeys)
	}
}

// orphan is an object that nothing refers to.
func (s *scene) orphan() string { return filepath.Join(s.data, "store", "segments", "orphan") }

// shows reports whether consumers find the host.
func (s *scene) shows(host string) bool {
	s.t.Helper()
	resp, err := http.Get(s.url() + "/a/" + host + "/all.tar.gz")
	testkit.Must(s.t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNotFound {
		s.t.Errorf("GET of a host: %s", resp.Status)
	}
	return resp.StatusCode == http.StatusOK
}

func (s *scene) allPublished(sheaf string) {
	s.t.Helper()
	s.checkEnd(sheaf, s.cargoes)
}

// discarded: nothing is public, and of the batch only the manifest and the reason are kept.
func (s *scene) discarded(sheaf string) {
	s.t.Helper()
	dir := filepath.Join(s.data, "buffers", "quarantine", string(s.cargoes[0].ID))
	if exists(filepath.Join(dir, "batch.tar.gz")) || !exists(filepath.Join(dir, "manifest")) {
		s.t.Errorf("of a discarded batch is kept %s; want the manifest and not the file", names(s.t, dir))
	}
	text, err := os.ReadFile(filepath.Join(dir, "reason.json"))
	testkit.Must(s.t, errors.Join(err, json.Unmarshal(text, new(map[string]string))))
	s.kill()
	if r := s.fsck(sheaf); r.Versions != 0 {
		s.t.Errorf("%d versions were published", r.Versions)
	}
}

// kept: the one host is gone, from the store too; the other is whole.
func (s *scene) kept(sheaf string) {
	s.t.Helper()
	s.checkDownloads(s.cargoes, s.robot.hosts[1])
	if s.shows(s.robot.hosts[0]) {
		s.t.Error("the host that was taken down is shown")
	}
	if left := names(s.t, filepath.Join(s.data, "store", "segments", archive.HostPath(s.robot.hosts[0]))); len(left) > 0 || exists(s.orphan()) {
		s.t.Errorf("collection has left %s, or the orphan: %t", left, exists(s.orphan()))
	}
	s.kill()
	if r := s.fsck(sheaf); r.Orphans > 0 {
		s.t.Errorf("fsck finds the orphans %s", r.OrphanKeys)
	}
}
