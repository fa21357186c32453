package receive_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

// TestManifestInterrupted shows that a robot that goes away while its batch is being accepted can
// send the manifest again, whether the batch is new or replaces one that had arrived damaged. Its
// file has been moved by then, and the batch is not entered.
func TestManifestInterrupted(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := batchtest.Make(t, h.robots, 1, batchtest.Site("h.example.jp", 40))
	send := func(data []byte) {
		h.want(h.create(b), 201)
		h.want(h.patch(b, 0, bytes.NewReader(data)), 204)
	}
	interrupt := func() {
		ctx, cancel := context.WithCancel(t.Context())
		interrupted := false
		h.onWrite(func(write, when string) {
			if write == "place" && when == "after" && !interrupted {
				interrupted = true
				cancel()
			}
		})
		req := httptest.NewRequestWithContext(ctx, http.MethodPut, "/v1/batches/"+string(b.ID)+"/manifest", bytes.NewReader(b.Signed))
		req.SetBasicAuth(batchtest.Robot, batchtest.Secret)
		answer := httptest.NewRecorder()
		h.server.Config.Handler.ServeHTTP(answer, req)
		h.onWrite(nil)
		if !interrupted || answer.Code < 400 {
			t.Fatalf("the manifest was answered %d; interrupted %t", answer.Code, interrupted)
		}
	}

	send(b.Data)
	interrupt()
	if n := h.offset(b); n != len(b.Data) {
		t.Errorf("%d of %d bytes are kept", n, len(b.Data))
	}
	h.want(h.putManifest(b), 202)
	h.awaitPublished(b)

	b = batchtest.Make(t, h.robots, 2, batchtest.Site("h.example.jp", 40))
	damaged := bytes.Clone(b.Data)
	damaged[len(damaged)/2] ^= 1
	send(damaged)
	h.want(h.putManifest(b), 202)
	h.awaitState(b, wire.StateQuarantined)
	send(b.Data)
	interrupt()
	if r := h.receipt(h.want(h.putManifest(b), 200).Body); r.State != wire.StateQuarantined {
		t.Errorf("state %s, and the robot is not told to send the batch again", r.State)
	}
	send(b.Data)
	h.want(h.putManifest(b), 202)
	h.awaitPublished(b)
}
