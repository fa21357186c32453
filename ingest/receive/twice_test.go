package receive_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

// rounds is how often the tests below let two uploads race; with SHEAF_TEST_FULL=1 it is 50 times.
func rounds() int64 { return int64(testkit.Size(5, 50)) }

// curl uploads a batch by HTTP as a script would, and gives the status of the last answer.
func (h *house) curl(b *batchtest.Batch) string {
	dir := h.t.TempDir()
	data, manifest := filepath.Join(dir, "data"), filepath.Join(dir, "manifest")
	testkit.Must(h.t, os.WriteFile(data, b.Data, 0o600))
	testkit.Must(h.t, os.WriteFile(manifest, b.Signed, 0o600))
	call := func(args ...string) string {
		args = append([]string{"--silent", "--user", batchtest.Robot + ":" + batchtest.Secret, "--output", filepath.Join(dir, "answer"), "--write-out", "%{http_code}"}, args...)
		out, err := exec.Command("curl", args...).CombinedOutput()
		if err != nil {
			h.t.Errorf("curl %q: %v: %s", args, err, out)
		}
		return string(out)
	}
	call("-X", "POST", "-H", "Tus-Resumable: 1.0.0", "-H", "Upload-Length: "+strconv.Itoa(len(b.Data)),
		"-H", "Upload-Metadata: batch "+base64.StdEncoding.EncodeToString([]byte(b.ID)), h.url+wire.PathUploads)
	call("-X", "PATCH", "-H", "Tus-Resumable: 1.0.0", "-H", "Upload-Offset: 0", "-H", "Content-Type: application/offset+octet-stream",
		"--data-binary", "@"+data, h.url+wire.PathUploads+string(b.ID))
	return call("-X", "PUT", "--data-binary", "@"+manifest, h.url+"/v1/batches/"+string(b.ID)+"/manifest")
}

// stor uploads a batch by FTP and gives the error of the last answer.
func (h *house) stor(b *batchtest.Batch) error {
	c := h.dial()
	defer c.Quit()
	if err := c.Stor(string(b.ID)+".tar.gz", bytes.NewReader(b.Data)); err != nil {
		return err
	}
	return c.Stor(string(b.ID)+".manifest", bytes.NewReader(b.Signed))
}

// race runs both until each has been answered for good, again where it was asked to.
func (h *house) race(byHTTP, byFTP *batchtest.Batch) (status, reply string) {
	h.t.Helper()
	testkit.Tool(h.t, "curl")
	ctx, cancel := context.WithTimeout(h.t.Context(), testkit.Patience)
	defer cancel()
	var both sync.WaitGroup
	both.Go(func() {
		for status = h.curl(byHTTP); status != "200" && status != "202" && status != "409" && ctx.Err() == nil; status = h.curl(byHTTP) {
		}
	})
	both.Go(func() {
		for {
			err := h.stor(byFTP)
			if reply = fmt.Sprint(err); err == nil || strings.Contains(reply, string(wire.ReasonIDReuse)) || ctx.Err() != nil {
				return
			}
		}
	})
	both.Wait()
	return status, reply
}

// published counts what is public of a host.
func (h *house) published(host string) (digests []string) {
	h.t.Helper()
	s, err := h.cat.Pin(h.t.Context())
	testkit.Must(h.t, err)
	defer s.Release()
	lines, err := s.Host(h.t.Context(), host)
	testkit.Must(h.t, err)
	for _, l := range lines {
		digests = append(digests, l.BatchSHA256)
	}
	return digests
}

// The same batch by HTTP and by FTP, both from their first byte and at once, is
// one batch: both get its receipt, and it is published once.
func TestTwiceAtOnce(t *testing.T) {
	h := newHouse(t)
	for n := range rounds() {
		host := fmt.Sprintf("h%d.example.jp", n)
		b := batchtest.Make(t, h.robots, n+1, batchtest.Site(host, 4))
		if status, reply := h.race(b, b); status == "409" || reply != "<nil>" {
			t.Fatalf("round %d: HTTP ends with %s, FTP with %s", n, status, reply)
		}
		h.awaitPublished(b)
		if got := h.published(host); len(got) != 1 || got[0] != b.Manifest.SHA256 {
			t.Fatalf("round %d: published %v", n, got)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(h.opt.Dir, "receive", "*")); len(left) != 0 {
		t.Errorf("uploads are left: %v", left)
	}
}

// Two batches under one ID at once, each complete and signed: one is taken and
// published, the other refused with id_reuse, and neither touches the other.
func TestOneIDTwoBatchesAtOnce(t *testing.T) {
	h := newHouse(t)
	for n := range rounds() {
		host := fmt.Sprintf("h%d.example.jp", n)
		one := batchtest.Make(t, h.robots, n+1, batchtest.Site(host, 4))
		two := batchtest.Make(t, h.robots, n+1, batchtest.Site(host, 5))
		status, reply := h.race(one, two)
		want := one
		if status == "409" {
			want = two
		}
		if (status == "409") != (reply == "<nil>") {
			t.Fatalf("round %d: HTTP ends with %s, FTP with %s; want one of them refused", n, status, reply)
		}
		h.awaitPublished(want)
		if got := h.published(host); len(got) != 1 || got[0] != want.Manifest.SHA256 {
			t.Fatalf("round %d: published %v, want %s alone", n, got, want.Manifest.SHA256)
		}
	}
}
