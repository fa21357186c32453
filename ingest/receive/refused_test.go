package receive_test

import (
	"bytes"
	"testing"

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
