package ingest_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/ingest/split"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

// bomb returns a host with more zeros than the test's service accepts.
func bomb(host string) batchtest.Host {
	return batchtest.Host{Name: host, Each: func(yield func(batchtest.Page) bool) {
		yield(batchtest.Page{Path: "/zeros.bin", Body: make([]byte, 3<<20)})
	}}
}

// Only a host that is too large is left out: the batch's others are published, and robot and
// operators are told which host is missing.
func TestBombCostsItsHostOnly(t *testing.T) {
	for name, packs := range map[string]split.Packs{"objects": {}, "packs": allPacked} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newInstallation(t)
			h.opt.Packs, h.opt.Limits.Grace = packs, 1<<20
			h.open().run()
			b := batchtest.Make(t, h.robots, 1, batchtest.Site("a.example.jp", 2), bomb("b.example.jp"), batchtest.Site("c.example.jp", 2))
			h.accept(b)
			r := h.await(b.ID, wire.StatePublished)
			if !strings.Contains(r.Detail, "b.example.jp: bomb_ratio") || strings.Contains(r.Detail, "a.example.jp") {
				t.Errorf("the receipt says %q, want that b.example.jp is left out", r.Detail)
			}
			for host, want := range map[string]int{"a.example.jp": 1, "b.example.jp": 0, "c.example.jp": 1} {
				lines := h.lines(host)
				if len(lines) != want {
					t.Errorf("%s has %d lines, want %d", host, len(lines), want)
				}
				for _, l := range lines {
					h.verify(l)
				}
			}
			h.fsck()
			if name == "packs" {
				pack := filepath.Join(h.dir, "objects", h.lines("c.example.jp")[0].Object)
				run(t, "gzip", "-t", pack)
				run(t, "tar", "--ignore-zeros", "-tzf", pack)
			}
		})
	}
}

// A batch of many bombs is refused, and so is one with nothing else.
func TestBombsAreRefused(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	h := newInstallation(t)
	h.opt.Limits.Grace = 1 << 20
	h.open().run()
	hosts := []batchtest.Host{batchtest.Site("a.example.jp", 1)}
	for n := range 11 {
		hosts = append(hosts, bomb(fmt.Sprintf("b%d.example.jp", n)))
	}
	for n, hosts := range [][]batchtest.Host{hosts, {bomb("b.example.jp")}, {bomb("b.example.jp"), bomb("c.example.jp")}} {
		b := batchtest.Make(t, h.robots, int64(n+1), hosts...)
		h.accept(b)
		if r := h.await(b.ID, wire.StateQuarantined); r.Reason != wire.ReasonBombRatio {
			t.Errorf("%d hosts: receipt %+v", len(hosts), r)
		}
	}
	if lines := h.lines("a.example.jp"); len(lines) != 0 {
		t.Errorf("a refused batch has published %d lines", len(lines))
	}
}
