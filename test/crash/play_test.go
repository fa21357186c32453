package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"sheaf/ingest"
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
	packed   = play{"in packs", byHTTP, (*scene).upload, (*scene).allPublished, map[string]any{"packs.below": "1MiB", "packs.size": "1MiB"}}
	cut      = play{"by http, cut", cutHTTP, (*scene).upload, (*scene).allPublished, nil}
	dropped  = play{"by ftp", byFTP, (*scene).upload, (*scene).allPublished, nil}
	appended = play{"by ftp, appended", byAppend, (*scene).upload, (*scene).allPublished, nil}
	damaged  = play{"damaged", byHTTP, (*scene).uploadDamaged, (*scene).allPublished, nil}
	noStore  = play{"store down", byHTTP, (*scene).uploadWithoutStore, (*scene).allPublished, nil}
	released = play{"released", byHTTP, (*scene).release, (*scene).allPublished, nil}
	unwanted = play{"discarded", byHTTP, (*scene).discard, (*scene).discarded, nil}
	merged   = play{"merged", byHTTP, (*scene).merge, (*scene).allPublished, nil}
	removed  = play{"taken down", byHTTP, (*scene).remove, (*scene).takenDown, nil}
)

// load makes the scene's next batch, of all hosts of the robot and more, and puts it into the spool.
func (s *scene) load(damage bool, more ...string) *cargo {
	s.t.Helper()
	c := s.robot.make(s.t, int64(len(s.cargoes)+1), 3, 8<<10, append(s.robot.hosts[:2:2], more...)...)
	if damage {
		c.damage()
	}
	check(s.t, s.spool.add(c))
	s.cargoes = append(s.cargoes, c)
	return c
}

// drain lets the robot work until its spool is empty, and gives its error then.
func (s *scene) drain() <-chan error {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(s.t.Context(), patience)
		defer cancel()
		done <- s.uploader(s.robot, s.spool, s.play.way).Drain(ctx)
	}()
	return done
}

// drained waits for the robot, and checks that each batch has left the spool once.
func (s *scene) drained(done <-chan error) {
	s.t.Helper()
	if err := <-done; err != nil {
		s.t.Fatalf("the robot: %v; %s", err, tail(s.log))
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
		s.t.Fatalf("the service died at %q, not %s; %s", at, s.die, tail(s.log))
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
	check(s.t, os.MkdirAll(segments, 0o755))
	check(s.t, os.WriteFile(filepath.Join(segments, "jp"), nil, 0o644))
	s.start(s.die)
	done := s.drain()
	s.died()
	check(s.t, os.Remove(filepath.Join(segments, "jp")))
	s.start(nil)
	s.drained(done)
}

// decide lets the operator decide about the quarantined batch until it is done,
// once before the death and, as an operator does who got no answer, after it.
func (s *scene) decide(c *cargo, decision string, done func(ingest.Batch) bool) {
	s.t.Helper()
	s.start(s.die)
	s.drained(s.drain())
	path := "/v1/admin/batches/" + string(c.ID)
	if err := s.operate(http.MethodPost, path+"/"+decision, ingest.Word{By: "test"}, nil); err == nil {
		s.t.Error("the operator got an answer from a service that was to die")
	}
	s.died()
	s.start(nil)
	eventually(s.t, decision, s.log, func() error {
		var b ingest.Batch
		if err := s.operate(http.MethodGet, path, nil, &b); err != nil {
			return err
		}
		if done(b) {
			return nil
		}
		if b.State == wire.StateQuarantined && b.Decision == "" {
			if err := s.operate(http.MethodPost, path+"/"+decision, ingest.Word{By: "test"}, nil); err != nil {
				return err
			}
		}
		return fmt.Errorf("it is %s, decision %q", b.State, b.Decision)
	})
}

func (s *scene) release() {
	c := s.load(false, "elsewhere.example.jp") // not the robot's host: a judgement, which an operator may set aside
	s.decide(c, "release", func(b ingest.Batch) bool { return b.State == wire.StatePublished })
}

func (s *scene) discard() {
	c := s.load(true)
	s.decide(c, "discard", func(b ingest.Batch) bool { return b.Decision == ingest.Discarded && b.Collected })
}

// keepCatalog has two batches published, and lets an operator's process die at its
// work on the catalog.
func (s *scene) keepCatalog(work string) (host string) {
	s.t.Helper()
	s.start(nil)
	for range 2 {
		s.load(false)
		s.drained(s.drain())
	}
	s.kill()
	host = s.robot.hosts[0]
	s.process = start(s.t, order{Settings: s.settings, Keep: work, Host: host, Die: s.die}, s.log)
	s.died()
	return host
}

// again does the work on the catalog to its end.
func (s *scene) again(work, host string) {
	s.t.Helper()
	s.kill()
	p := start(s.t, order{Settings: s.settings, Keep: work, Host: host}, s.log)
	if at := p.await(s.t, s.log); at != "ended by itself: <nil>" {
		s.t.Errorf("%s: %s; %s", work, at, tail(s.log))
	}
	s.start(nil)
}

func (s *scene) merge() {
	host := s.keepCatalog("merge")
	s.start(nil)
	s.checkDownloads(s.cargoes)
	s.again("merge", host)
}

func (s *scene) remove() {
	host := s.keepCatalog("remove")
	s.start(nil)
	shown := s.die.Write != "catalog/remove-version" || s.die.When != "after"
	if s.shows(host) != shown {
		s.t.Errorf("a host is shown: %t, want %t", !shown, shown)
	}
	s.again("remove", host)
}

// shows reports whether consumers find the host.
func (s *scene) shows(host string) bool {
	s.t.Helper()
	resp, err := http.Get(s.url() + "/a/" + host + "/all.tar.gz")
	check(s.t, err)
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
	check(s.t, errors.Join(err, json.Unmarshal(text, new(map[string]string))))
	s.kill()
	if r := s.fsck(sheaf); r.Versions != 0 {
		s.t.Errorf("%d versions were published", r.Versions)
	}
}

// takenDown: the one host is gone, the other is whole.
func (s *scene) takenDown(sheaf string) {
	s.t.Helper()
	if s.shows(s.robot.hosts[0]) || !s.shows(s.robot.hosts[1]) {
		s.t.Error("the host that was taken down is shown, or the other is not")
	}
	s.kill()
	s.fsck(sheaf)
}
