package ingest_test

import (
	"strings"
	"testing"
	"time"

	"sheaf/archive/catalog"
	"sheaf/ingest"
	"sheaf/ingest/split"
	"sheaf/internal/testkit"
	"sheaf/internal/window"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

// Collection keeps what a batch has stored that is not published yet, however long it waits. It
// deletes what an attempt of a refused batch has stored.
func TestCollectionKeepsClaims(t *testing.T) {
	for name, packs := range map[string]split.Packs{"segments": {}, "packs": {Below: 1 << 20, Size: 1 << 20}} {
		t.Run(name, func(t *testing.T) {
			h := newInstallation(t)
			h.opt.Window, h.opt.Packs = window.Never(), packs
			h.open().run()
			waits := batchtest.Make(t, h.robots, 1, batchtest.Site("a.example.jp", 2), batchtest.Site("b.example.jp", 2))
			wrong := batchtest.Make(t, h.robots, 11, batchtest.Site("a.example.jp", 2), batchtest.Site("b.example.jp", 2))
			wrong.Data[len(wrong.Data)-600] ^= 1
			h.accept(waits)
			h.accept(wrong)
			h.await(waits.ID, wire.StatePostSplit)
			h.await(wrong.ID, wire.StateQuarantined)
			collect := func(days int) *catalog.Collection {
				c, err := catalog.Open(t.Context(), h.store, catalog.Options{Now: func() time.Time { return time.Now().AddDate(0, 0, days) }})
				testkit.Must(t, err)
				r, err := c.Collect(t.Context(), catalog.CollectOptions{Claims: h.in.Publisher.Claims})
				testkit.Must(t, err)
				return r
			}
			for days := range 4 {
				if r := collect(2 * days); days > 0 && r.Claimed == 0 {
					t.Errorf("after %d days: %+v", 2*days, r)
				}
			}
			for info, err := range h.store.List(t.Context(), "", "") {
				testkit.Must(t, err)
				if strings.Contains(info.Key, string(wrong.ID)) {
					t.Errorf("%s is left", info.Key)
				}
			}
			_, _, err := h.in.Publisher.Now(t.Context())
			testkit.Must(t, err)
			for days := range 3 {
				collect(10 + 2*days)
			}
			for _, host := range []string{"a.example.jp", "b.example.jp"} {
				lines := h.lines(host)
				if len(lines) != 1 {
					t.Fatalf("%s has %d lines", host, len(lines))
				}
				h.verify(lines[0])
			}
			if err := h.store.Delete(t.Context(), "catalog/00000000000000000001"); err != nil {
				t.Fatal(err)
			}
			c, err := catalog.Open(t.Context(), h.store, catalog.Options{})
			testkit.Must(t, err)
			h.stop()
			h.opt.Catalog = c
			in, err := ingest.New(t.Context(), h.opt)
			testkit.Must(t, err)
			if _, err := c.Collect(t.Context(), catalog.CollectOptions{Claims: in.Publisher.Claims}); err == nil || !strings.Contains(err.Error(), "record is lost") {
				t.Errorf("with the newest version lost: %v", err)
			}
		})
	}
}
