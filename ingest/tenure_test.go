package ingest_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/window"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

// A batch speaks for the hosts that its robot had, up to when it had them. Of what else it brings
// nothing is published, whatever its manifest says, and the rest is, however late it comes.
func TestBatchSpeaksForItsHosts(t *testing.T) {
	ended := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	at := func(host string, start time.Time) batchtest.Host {
		site := batchtest.Site(host, 2)
		site.Start = start
		return site
	}
	sites := func() []batchtest.Host {
		return []batchtest.Host{
			at("forged.example.jp", ended.Add(11*time.Minute)),
			at("had.example.jp", ended.Add(9*time.Minute)),
			at("has.example.jp", ended.Add(48*time.Hour)),
			at("hidden.example.jp", ended.Add(11*time.Minute)),
			at("never.example.jp", ended),
		}
	}
	h := newInstallation(t)
	h.robots.Foreign = []string{"never.example.jp"}
	h.robots.Until = map[string]time.Time{"forged.example.jp": ended, "had.example.jp": ended, "hidden.example.jp": ended}
	h.open().run()
	b := batchtest.Make(t, h.robots, 1, sites()...)
	b.Manifest.Hosts[3].Last = ended // which is not so
	b = h.robots.Reframe(t, b, b.Range(0), b.Range(1), b.Range(2), b.Range(3), b.Range(4))
	h.accept(b)
	r := h.await(b.ID, wire.StatePublished)
	for host, taken := range map[string]bool{
		"forged.example.jp": false, "had.example.jp": true, "has.example.jp": true, "hidden.example.jp": false, "never.example.jp": false,
	} {
		if n := len(h.lines(host)); n == 1 != taken {
			t.Errorf("%s has %d lines, want it taken: %t", host, n, taken)
		}
		if strings.Contains(r.Detail, host+": "+string(wire.ReasonHostNotAssigned)) == taken {
			t.Errorf("the receipt says %q of %s", r.Detail, host)
		}
	}
	h.fsck()

	t.Run("nothing is the robot's", func(t *testing.T) {
		b := batchtest.Make(t, h.robots, 2, at("forged.example.jp", ended.Add(time.Hour)), at("never.example.jp", ended))
		h.accept(b)
		if r := h.await(b.ID, wire.StateQuarantined); r.Reason != wire.ReasonHostNotAssigned {
			t.Errorf("receipt %+v", r)
		}
		_, err := h.in.Quarantine.Release(t.Context(), string(b.ID), word)
		testkit.Must(t, err)
		h.await(b.ID, wire.StatePublished)
		if len(h.lines("never.example.jp")) != 1 {
			t.Error("an operator's release does not count")
		}
	})
	t.Run("a service restored from a backup", func(t *testing.T) {
		h.robots.Generation = 2
		b := batchtest.Make(t, h.robots, 3, at("has.example.jp", ended))
		h.robots.Generation = 1
		h.accept(b)
		if r := h.await(b.ID, wire.StateQuarantined); r.Reason != wire.ReasonHostNotAssigned {
			t.Errorf("receipt %+v", r)
		}
	})
}

// Nobody has signed when the pages of a file without a manifest were fetched.
func TestFileWithoutManifestIsJudgedByNow(t *testing.T) {
	h := newInstallation(t)
	h.robots.Until = map[string]time.Time{"had.example.jp": time.Now()}
	h.open().run()
	b := batchtest.Make(t, h.robots, 1, batchtest.Site("had.example.jp", 1), batchtest.Site("has.example.jp", 1))
	up := h.upload(b)
	found, err := h.in.Acceptor.Infer(t.Context(), up)
	testkit.Must(t, err)
	_, err = h.in.Acceptor.AcceptInferred(t.Context(), up, found.Manifest)
	testkit.Must(t, err)
	h.await(b.ID, wire.StatePublished)
	if had, has := len(h.lines("had.example.jp")), len(h.lines("has.example.jp")); had != 0 || has != 1 {
		t.Errorf("%d lines of the host that it had, %d of the one that it has; want 0 and 1", had, has)
	}
}

// A robot tells nothing of the coverage of hosts that it never had.
func TestCoverageOfOthersHosts(t *testing.T) {
	h := newInstallation(t)
	h.robots.Foreign = []string{"never.example.jp"}
	h.open().run()
	for n, c := range []struct {
		of   string
		want wire.State
	}{{"never.example.jp", wire.StateQuarantined}, {"other.example.jp", wire.StatePublished}} {
		b := batchtest.Make(t, h.robots, int64(n+1), batchtest.Site("has.example.jp", 1))
		b.Manifest.Coverage = []wire.Coverage{{Host: c.of, Collected: 1_000_000}}
		b = h.robots.Reframe(t, b, b.Range(0))
		h.accept(b)
		if r := h.await(b.ID, c.want); c.want == wire.StateQuarantined && r.Reason != wire.ReasonHostNotAssigned {
			t.Errorf("receipt %+v", r)
		}
	}
}

// What nobody waits for is not published outside the window, and what somebody waits for in few
// editions.
func TestExpressIsForWatches(t *testing.T) {
	h := newInstallation(t)
	h.opt.Window = window.Never()
	h.opt.Limits.Poll = time.Millisecond
	now := time.Now()
	var passed atomic.Int64
	h.opt.Now = func() time.Time { return now.Add(time.Duration(passed.Load())) }
	h.open().run()
	h.robots.Express, h.robots.Unwatched = true, true
	unwatched := batchtest.Make(t, h.robots, 1, batchtest.Site("a.example.jp", 1))
	h.accept(unwatched)
	h.await(unwatched.ID, wire.StatePostSplit)
	h.robots.Unwatched = false
	empty := batchtest.Make(t, h.robots, 99) // nobody watches nothing
	h.accept(empty)
	h.await(empty.ID, wire.StatePostSplit)
	const atOnce = 10
	editions := make(map[string]bool)
	for n := range int64(atOnce) {
		b := batchtest.Make(t, h.robots, 2+n, batchtest.Site("b.example.jp", 1))
		h.accept(b)
		editions[h.await(b.ID, wire.StatePublished).Edition] = true
	}
	if len(editions) != atOnce {
		t.Errorf("%d batches that came one by one are in the editions %v", atOnce, editions)
	}
	var more []*batchtest.Batch
	for n := range int64(3) {
		b := batchtest.Make(t, h.robots, 2+atOnce+n, batchtest.Site("b.example.jp", 1))
		h.accept(b)
		h.await(b.ID, wire.StatePostSplit)
		more = append(more, b)
	}
	passed.Store(int64(time.Minute))
	next := h.await(more[0].ID, wire.StatePublished).Edition
	for _, b := range more {
		if got := h.await(b.ID, wire.StatePublished).Edition; got != next || editions[got] {
			t.Errorf("batch %s is in edition %s, those before in %v; want all others in %s", b.ID, got, editions, next)
		}
	}
	h.await(unwatched.ID, wire.StatePostSplit)
	h.await(empty.ID, wire.StatePostSplit)
}
