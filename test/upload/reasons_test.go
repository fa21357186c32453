package upload_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/ingest/inbox"
	"sheaf/ingest/receive"
	"sheaf/internal/files"
	"sheaf/internal/testkit"
	"sheaf/robotd/batch"
	"sheaf/test/batchtest"
)

// TestReasons: for each reason the robot is told it, does what it should, and continues with the
// next batch, by HTTP and FTP.
func TestReasons(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for _, c := range []struct {
		reason string // for which it is put aside; empty: it is published in the end
		advice string
		spoil  func(h *installation, b *batchtest.Batch)
	}{
		{"id_reuse", "copy, or restored from a backup", func(h *installation, b *batchtest.Batch) {
			h.put(batchtest.Make(h.t, h.robots, 1, batchtest.Site("first.example.jp", 2)))
			h.drain(h.service())
		}},
		{"bad_signature", "another key", func(h *installation, b *batchtest.Batch) { batchtest.NewRobots(h.t).Sign(h.t, b) }},
		{"host_not_assigned", "can release it", func(h *installation, b *batchtest.Batch) { h.robots.Foreign = []string{"bad.example.jp"} }},
		{"clock", "NTP", func(h *installation, b *batchtest.Batch) {
			b.Manifest.Created = time.Now().Add(48 * time.Hour)
			h.robots.Sign(h.t, b)
		}},
		{"corrupt_member", "fetched again", func(h *installation, b *batchtest.Batch) {
			b.Data[len(b.Data)/3] ^= 1
			h.robots.Resign(h.t, b)
		}},
		{"sha_mismatch", "no longer has its digest", func(h *installation, b *batchtest.Batch) { b.Data[len(b.Data)/3] ^= 1 }}, // on the robot's disk
	} {
		t.Run(c.reason, func(t *testing.T) {
			for name, by := range map[string]func(*installation) way{
				"http": func(h *installation) way { return h.service() },
				"ftp":  func(h *installation) way { return h.drop() },
			} {
				t.Run(name, func(t *testing.T) {
					h := newInstallation(t, setup{})
					bad := batchtest.Make(t, h.robots, 1, batchtest.Site("bad.example.jp", 3))
					c.spoil(h, bad)
					next := batchtest.Make(t, h.robots, 2, batchtest.Site("good.example.jp", 3))
					h.put(bad)
					h.put(next)
					h.drain(by(h))
					if why := h.aside(bad.ID); !strings.HasPrefix(why, c.reason+": ") || !strings.Contains(why, c.advice) {
						t.Errorf("put aside with %q", why)
					}
					h.wantPublished(next)
				})
			}
		})
	}
}

// TestTooLarge: a batch that the service's disk could never hold is refused with that reason, by
// HTTP and FTP. The robot puts it aside, says so, and continues with the next one.
func TestTooLarge(t *testing.T) {
	testkit.Slow(t)
	for name, by := range map[string]func(*installation) way{
		"http": func(h *installation) way { return h.service() },
		"ftp":  func(h *installation) way { return h.drop() },
	} {
		t.Run(name, func(t *testing.T) {
			empty := func() (files.Room, error) { return files.Room{Bytes: 20 * mib, Free: 20 * mib}, nil }
			h := newInstallation(t, setup{receiver: func(o *receive.Options) {
				o.Disks = []inbox.Disk{{Name: "a disk of 20 MiB", Space: empty, Buffers: true}}
				o.Marks = inbox.Marks{}
			}})
			bad := large(t, h.robots, 1, 18*mib)
			next := batchtest.Make(t, h.robots, 2, batchtest.Site("good.example.jp", 3))
			h.put(bad)
			h.put(next)
			h.drain(by(h))
			if why := h.aside(bad.ID); !strings.HasPrefix(why, "too_large: ") || !strings.Contains(why, "batch.size") || !strings.Contains(why, "a disk of 20 MiB") {
				t.Errorf("put aside with %q", why)
			}
			h.wantPublished(next)
		})
	}
}

// damaging changes a byte of the first bodies that are sent by PATCH.
type damaging struct {
	times int
	sent  int
}

func (d *damaging) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPatch {
		if d.sent++; d.sent <= d.times {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return nil, err
			}
			body[len(body)/2] ^= 1
			req = req.Clone(req.Context())
			req.Body = io.NopCloser(bytes.NewReader(body))
		}
	}
	return http.DefaultClient.Transport.RoundTrip(req)
}

// TestDamagedOnItsWay: a batch that arrives with other bytes is sent again under its ID and then
// published, and put aside if this never helps.
func TestDamagedOnItsWay(t *testing.T) {
	for times, sends := range map[int]int{1: 2, 2: 3, 100: 3} {
		h := newInstallation(t, setup{})
		b := batchtest.Make(t, h.robots, 1, batchtest.Site("www.example.jp", 5))
		h.put(b)
		line := &damaging{times: times}
		service := h.service()
		service.Client = &http.Client{Transport: line}
		h.drain(service)
		if line.sent != sends {
			t.Errorf("damaged %d times: sent %d times, want %d", times, line.sent, sends)
		}
		if times < sends {
			h.wantPublished(b)
		} else if why := h.aside(b.ID); !strings.HasPrefix(why, "sha_mismatch: ") || !strings.Contains(why, "again and again") {
			t.Errorf("put aside with %q", why)
		}
		if left, _ := filepath.Glob(filepath.Join(h.buffers, "receive", "*")); len(left) > 0 {
			t.Errorf("uploads are left: %v", left)
		}
	}
}

// TestMendedByFTP: a batch that came damaged by HTTP may come whole by FTP.
func TestMendedByFTP(t *testing.T) {
	h := newInstallation(t, setup{})
	b := batchtest.Make(t, h.robots, 1, batchtest.Site("www.example.jp", 5))
	h.put(b)
	service := h.service()
	service.Client = &http.Client{Transport: &damaging{times: 1}}
	h.drain(&httpThenFTP{HTTP: service, drop: h.drop()})
	h.wantPublished(b)
	if left, _ := os.ReadDir(filepath.Join(h.buffers, "quarantine")); len(left) > 0 {
		t.Errorf("the quarantine holds %v", left)
	}
}

// httpThenFTP sends once by HTTP, and after that by FTP.
type httpThenFTP struct {
	*batch.HTTP
	drop *batch.FTP
	sent bool
}

func (w *httpThenFTP) Send(ctx context.Context, b batch.Spooled) error {
	if !w.sent {
		w.sent = true
		return w.HTTP.Send(ctx, b)
	}
	return w.drop.Send(ctx, b)
}
