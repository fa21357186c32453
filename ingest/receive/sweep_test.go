package receive_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/ingest/inbox"
	"sheaf/internal/files"
	"sheaf/internal/ftp"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

// age makes an upload one that nobody has touched for so long.
func (h *house) age(name string, by time.Duration) {
	h.t.Helper()
	path := filepath.Join(h.opt.Dir, "receive", name+".info")
	data, err := os.ReadFile(path)
	testkit.Must(h.t, err)
	var status map[string]any
	testkit.Must(h.t, json.Unmarshal(data, &status))
	status["touched"] = time.Now().Add(-by)
	data, err = json.Marshal(status)
	testkit.Must(h.t, err)
	testkit.Must(h.t, os.WriteFile(path, data, 0o600))
}

// TestBootSweep: a start clears away what a killed process has left half made and
// what is stale, and keeps what robots go on with.
func TestBootSweep(t *testing.T) {
	h := newHouse(t)
	live := batchtest.Make(t, h.robots, 1, batchtest.Site("live.example.jp", 30))
	stale := batchtest.Make(t, h.robots, 2, batchtest.Site("stale.example.jp", 30))
	taken := batchtest.Make(t, h.robots, 3, batchtest.Site("taken.example.jp", 3))
	for _, b := range []*batchtest.Batch{live, stale} {
		h.want(h.create(b), 201)
		before := h.ended.Load()
		h.cut(b, 0, len(b.Data)/2)
		testkit.Until(t, "the server to notice the cut", func() bool { return h.ended.Load() > before })
	}
	h.want(h.create(taken), 201)
	h.want(h.patch(taken, 0, bytes.NewReader(taken.Data)), 204)
	h.want(h.putManifest(taken), 202)
	h.awaitPublished(taken)
	at := h.offset(live)

	h.age(string(stale.ID), 15*24*time.Hour)
	h.age(string(live.ID), 13*24*time.Hour)
	dir := filepath.Join(h.opt.Dir, "receive")
	status, err := os.ReadFile(filepath.Join(dir, string(live.ID)+".info"))
	testkit.Must(t, err)
	ofTaken := strings.ReplaceAll(string(status), string(live.ID), string(taken.ID))
	for name, content := range map[string]string{
		"waseda-20261120T150405Z-4":           "bytes whose status was never written",
		"waseda-20261120T150405Z-5.info":      string(status), // its bytes were moved away
		"waseda-20261120T150405Z-6.info.tmp":  "half a sta",
		"waseda-20261120T150405Z-7":           "bytes",
		"waseda-20261120T150405Z-7.info":      "not JSON",
		string(taken.ID):                      "accepted, and not cleared away",
		string(taken.ID) + ".info":            ofTaken,
		string(live.ID) + ".info.tmp":         "half a status",
		"waseda-20261120T150405Z-8.ftp.tmp":   "",
		"waseda-20261120T150405Z-8.manifest~": "whatever it is",
	} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	// Written, but never promised: it does not count.
	f, err := os.OpenFile(filepath.Join(dir, string(live.ID)), os.O_APPEND|os.O_WRONLY, 0)
	testkit.Must(t, err)
	_, err = f.WriteString("a torn tail")
	testkit.Must(t, err)
	testkit.Must(t, f.Close())

	h.open()
	left, err := os.ReadDir(dir)
	testkit.Must(t, err)
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if len(names) != 2 || names[0] != string(live.ID) || names[1] != string(live.ID)+".info" {
		t.Errorf("the sweep has left %v", names)
	}
	if n := h.offset(live); n != at {
		t.Errorf("offset %d after the start, was %d", n, at)
	}
	h.finish(live)
}

// TestExpiry: what nobody goes on with is cleared away while the service runs too,
// but never under a writer's hands.
func TestExpiry(t *testing.T) {
	h := newHouse(t)
	old, held := batchtest.Make(t, h.robots, 1, batchtest.Site("a.example.jp", 3)), batchtest.Make(t, h.robots, 2, batchtest.Site("b.example.jp", 3))
	h.opt.AbandonAfter = time.Nanosecond
	h.open()
	h.want(h.create(old), 201)
	d := dialFTP(t, h.serveFTP(ftp.Config{}))
	data := d.stor(string(held.ID)+".tar.gz", 0)
	data.Write(held.Data[:100])
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- h.rec.Run(ctx) }()
	testkit.Until(t, "the stale upload is gone", func() bool {
		_, err := os.Stat(filepath.Join(h.opt.Dir, "receive", string(old.ID)))
		return os.IsNotExist(err)
	})
	cancel()
	testkit.Must(t, <-done)
	h.want(h.do("HEAD", wire.PathUploads+string(old.ID), nil, tus()...), 404)
	data.Write(held.Data[100:])
	data.Close()
	d.reply(226)
	if n := d.size(held); n != len(held.Data) {
		t.Errorf("%d bytes of the upload that was being written are kept", n)
	}
}

// TestRoomIsMade: beginnings that nobody goes on with do not fill the disk for ever.
func TestRoomIsMade(t *testing.T) {
	h := newHouse(t)
	first := batchtest.Make(t, h.robots, 1, batchtest.Site("a.example.jp", 3))
	h.opt.Disks = []inbox.Disk{{Name: "small", Buffers: true, Space: func() (files.Room, error) {
		return files.Room{Bytes: int64(len(first.Data)) * 2, Free: int64(len(first.Data)) * 2}, nil
	}}}
	h.open()
	h.want(h.create(first), 201)
	second := batchtest.Make(t, h.robots, 2, batchtest.Site("a.example.jp", 3))
	h.want(h.create(second), 507)
	h.age(string(first.ID), 7*time.Hour)
	h.open()
	h.want(h.create(second), 201)
	h.want(h.do("HEAD", wire.PathUploads+string(first.ID), nil, tus()...), 404) // it begins anew when there is room
}

// TestStalledConnections: who sends nothing is let go after the configured time, by
// either protocol, and what came is kept.
func TestStalledConnections(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	h := newHouse(t)
	h.opt.Stall = time.Second
	h.open()
	b := batchtest.Make(t, h.robots, 1, batchtest.Site("a.example.jp", 30))
	h.want(h.create(b), 201)
	d := dialFTP(t, h.serveFTP(ftp.Config{DataTimeout: time.Second}))
	data := d.stor(string(b.ID)+".tar.gz", 0)
	defer data.Close()
	data.Write(b.Data[:1000])
	if text := d.reply(426); !strings.Contains(text, "No data moved") {
		t.Errorf("426 %s", text)
	}
	if n := d.size(b); n != 1000 {
		t.Errorf("%d bytes are kept by FTP", n)
	}

	c, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	testkit.Must(t, err)
	defer c.Close()
	c.SetDeadline(time.Now().Add(testkit.Patience))
	h.beginPatch(c, b, 0)
	c.Write(b.Data[:1000])
	end := make([]byte, 64<<10)
	for err == nil { // the answer, if there is one, and the end
		_, err = c.Read(end)
	}
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Error("a stalled PATCH is never let go")
	}
	if n := h.offset(b); n != 1000 {
		t.Errorf("%d bytes are kept by HTTP", n)
	}
}

// TestWithoutLength: an upload that does not say how long it is has nothing set
// aside for it, and is not begun.
func TestWithoutLength(t *testing.T) {
	h := newHouse(t)
	b := batchtest.Make(t, h.robots, 1, batchtest.Site("a.example.jp", 3))
	metadata := []string{"Upload-Metadata", "batch " + base64.StdEncoding.EncodeToString([]byte(b.ID))}
	for _, header := range [][]string{metadata, append([]string{"Upload-Defer-Length", "1"}, metadata...), append([]string{"Upload-Length", "-1"}, metadata...)} {
		if res := h.do("POST", wire.PathUploads, bytes.NewReader(b.Data), tus(header...)...); res.StatusCode/100 != 4 && res.StatusCode != 501 {
			t.Errorf("%v: %s", header, res.Status)
		}
	}
	h.want(h.do("HEAD", wire.PathUploads+string(b.ID), nil, tus()...), 404)
}
