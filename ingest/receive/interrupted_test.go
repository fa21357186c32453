package receive_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sheaf/internal/testkit"
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

// TestUploadEndsWithService shows that a service that stops does not wait for what robots still
// send. It keeps what has come, says that it stops, and the robot goes on from there.
func TestUploadEndsWithService(t *testing.T) {
	t.Parallel()
	h := newBare(t, 10*time.Millisecond)
	stopping := make(chan struct{})
	h.opt.Stopping = stopping
	h.open()
	b := batchtest.Make(t, h.robots, 1, batchtest.Site("h.example.jp", 40))
	half := len(b.Data) / 2
	h.want(h.create(b), 201)
	body, robot := io.Pipe()
	defer robot.Close()
	go func() {
		robot.Write(b.Data[:half])
		testkit.Until(t, "the half has come", func() bool {
			kept, err := os.Stat(filepath.Join(h.opt.Dir, "receive", string(b.ID)))
			return err == nil && kept.Size() == int64(half)
		})
		close(stopping)
	}()
	if why := h.reason(h.want(h.patch(b, 0, body), 503)); why != "server_shutdown" {
		t.Errorf("the reason is %s", why)
	}
	if n := h.offset(b); n != half {
		t.Errorf("%d bytes are kept, want %d", n, half)
	}
	if why := h.reason(h.want(h.patch(b, half, bytes.NewReader(b.Data[half:])), 503)); why != "server_shutdown" {
		t.Errorf("while it stops, the reason is %s", why)
	}
	h.opt.Stopping = nil
	h.open()
	h.want(h.patch(b, half, bytes.NewReader(b.Data[half:])), 204)
	h.want(h.putManifest(b), 202)
	h.awaitPublished(b)
}
