package receive_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"sheaf/internal/ftp"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

// TestRobotLearnsWhyItWasRefused: the receipt speaks of the bytes that are asked
// for, and an accepted batch's is not overshadowed by what was refused beside it.
func TestRobotLearnsWhyItWasRefused(t *testing.T) {
	h := newHouse(t)
	first := batchtest.Make(t, h.robots, 1, batchtest.Site("one.example.jp", 1))
	forged := batchtest.NewRobots(t).Sign(t, &batchtest.Batch{ID: first.ID, Data: first.Data, Manifest: first.Manifest})
	other := batchtest.Make(t, h.robots, 1, batchtest.Site("one.example.jp", 2))
	path := "/v1/batches/" + string(first.ID) + "/receipt"
	send := func(b *batchtest.Batch, status int) {
		t.Helper()
		h.want(h.create(b), 201)
		h.want(h.patch(b, 0, bytes.NewReader(b.Data)), 204)
		h.want(h.putManifest(b), status)
	}
	send(forged, 422)
	if r := h.receipt(h.want(h.do("GET", path, nil), 200).Body); r.State != wire.StateQuarantined || r.Reason != wire.ReasonBadSignature {
		t.Errorf("after the forged one: %+v", r)
	}
	send(first, 202)
	send(other, 409)
	if r := h.receipt(h.want(h.do("GET", path, nil), 200).Body); r.SHA256 != first.Manifest.SHA256 || r.Reason != "" {
		t.Errorf("of the accepted one: %+v", r)
	}
	if r := h.receipt(h.want(h.do("GET", path+"?sha256="+other.Manifest.SHA256, nil), 200).Body); r.State != wire.StateQuarantined || r.Reason != wire.ReasonIDReuse {
		t.Errorf("of the newcomer: %+v", r)
	}
}

// TestRobotsWithoutRoomAreTold: operators see each robot for which there is no room, by either
// protocol, when it begins a batch and also when it goes on with one.
func TestRobotsWithoutRoomAreTold(t *testing.T) {
	h := newHouse(t)
	var mu sync.Mutex
	var told []string
	h.opt.Refused = func(_ context.Context, robot, why string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, robot+": "+why)
	}
	h.open()
	begun := batchtest.Make(t, h.robots, 1, batchtest.Site("a.example.jp", 1))
	h.want(h.create(begun), 201)
	h.setFree(disk / 100)
	want := func(when string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if len(told) != 1 || !strings.HasPrefix(told[0], batchtest.Robot+": no room for ") {
			t.Errorf("%s: the manager is told %q", when, told)
		}
		told = nil
	}
	h.want(h.patch(begun, 0, bytes.NewReader(begun.Data)), 507)
	want("going on by HTTP")
	other := batchtest.Make(t, h.robots, 2, batchtest.Site("a.example.jp", 1))
	h.create(other)
	want("beginning by HTTP")
	d := dialFTP(t, h.serveFTP(ftp.Config{}))
	d.cmd(2, "EPSV")
	d.cmd(4, "STOR "+string(other.ID)+".tar.gz")
	want("beginning by FTP")
}
