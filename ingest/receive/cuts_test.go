package receive_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/internal/ftp"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

// cutPoints are the byte counts after which an upload is cut: none, one, all
// but one, every member's end and its neighbours, and others by chance, at least n.
func cutPoints(b *batchtest.Batch, n int) []int {
	points := map[int]bool{0: true, 1: true, len(b.Data) - 1: true}
	end := 0
	for _, m := range batchtest.Members(b.Data) {
		end += len(m)
		for _, p := range []int{end - 1, end, end + 1} {
			if p < len(b.Data) {
				points[p] = true
			}
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for len(points) < n {
		points[rng.IntN(len(b.Data))] = true
	}
	list := make([]int, 0, len(points))
	for p := range points {
		list = append(list, p)
	}
	slices.Sort(list)
	return list
}

const leastCuts = 200

// reset closes a connection so that the other end sees it break.
func reset(c net.Conn) {
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// httpCuts are the ways in which a PATCH ends too early.
var httpCuts = []struct {
	name string
	cut  func(c net.Conn)
}{
	{"close", func(c net.Conn) { c.Close() }},
	{"reset", reset},
	{"half-close", func(c net.Conn) {
		c.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, c)
		c.Close()
	}},
}

// TestHTTPCuts: a PATCH cut after any number of bytes never completes a batch, and
// is gone on with until the batch is whole, byte for byte, and published once.
func TestHTTPCuts(t *testing.T) {
	testkit.Slow(t)
	h := newHouse(t)
	b := batchtest.Make(t, h.robots, 1, batchtest.Site("a.example.jp", 12), batchtest.Site("b.example.jp", 5))
	server, err := url.Parse(h.url)
	testkit.Must(t, err)
	points := cutPoints(b, leastCuts)
	h.want(h.create(b), 201)
	for i, to := range points {
		if at := h.offset(b); at > to {
			h.want(h.create(b), 201) // afresh
		}
		at := h.offset(b)
		how := httpCuts[i%len(httpCuts)]
		c, err := net.Dial("tcp", server.Host)
		testkit.Must(t, err)
		c.SetDeadline(time.Now().Add(testkit.Patience))
		h.beginPatch(c, b, at)
		c.Write(b.Data[at:to])
		how.cut(c)
		h.wantUnfinished(b, fmt.Sprintf("%s after %d", how.name, to))
		if kept := h.offset(b); kept < at || kept > to {
			t.Fatalf("%s after %d: %d are kept, %d were", how.name, to, kept, at)
		}
	}
	h.finish(b)
	t.Logf("%d cuts of %d bytes", len(points), len(b.Data))
}

// beginPatch sends the head of a PATCH of all that is left of the batch.
func (h *house) beginPatch(c net.Conn, b *batchtest.Batch, at int) {
	h.t.Helper()
	req, err := http.NewRequest("PATCH", h.url+wire.PathUploads+string(b.ID), nil)
	testkit.Must(h.t, err)
	req.SetBasicAuth(batchtest.Robot, batchtest.Secret)
	fmt.Fprintf(c, "PATCH %s HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\nTus-Resumable: 1.0.0\r\nContent-Type: application/offset+octet-stream\r\nUpload-Offset: %d\r\nContent-Length: %d\r\n\r\n",
		req.URL.Path, req.Host, req.Header.Get("Authorization"), at, len(b.Data)-at)
}

// wantUnfinished checks that a cut upload is not taken for complete, neither by
// itself nor when its manifest comes.
func (h *house) wantUnfinished(b *batchtest.Batch, how string) {
	h.t.Helper()
	if res := h.putManifest(b); res.StatusCode != 409 || h.reason(res) != "incomplete" {
		h.t.Fatalf("%s: the manifest is answered %s", how, res.Status)
	}
	h.want(h.do("GET", "/v1/batches/"+string(b.ID)+"/receipt", nil), 404)
}

// finish sends the rest by HTTP and checks what is published.
func (h *house) finish(b *batchtest.Batch) {
	h.t.Helper()
	testkit.Until(h.t, "the rest is taken", func() bool {
		at := h.offset(b)
		res := h.patch(b, at, bytes.NewReader(b.Data[at:]))
		if res.StatusCode == 409 && h.reason(res) == "taken_over" {
			return false // by a connection that was cut before, and that the server has read late
		}
		h.want(res, 204)
		return true
	})
	kept, err := os.ReadFile(filepath.Join(h.opt.Dir, "receive", string(b.ID)))
	testkit.Must(h.t, err)
	if !bytes.Equal(kept, b.Data) {
		h.t.Error("the bytes that are kept are not those that were sent")
	}
	h.want(h.putManifest(b), 202)
	h.awaitPublished(b)
	h.wantOnce(b)
}

// wantOnce checks that every host of the batch is published once.
func (h *house) wantOnce(b *batchtest.Batch) {
	h.t.Helper()
	s, err := h.cat.Pin(h.t.Context())
	testkit.Must(h.t, err)
	defer s.Release()
	for _, host := range b.Manifest.Hosts {
		if lines, err := s.Host(h.t.Context(), host.Name); err != nil || len(lines) != 1 {
			h.t.Errorf("%s is published %d times, %v", host.Name, len(lines), err)
		}
	}
}

// dialogue is an FTP client that does what no decent client would.
type dialogue struct {
	t    testing.TB
	ctrl net.Conn
	text *textproto.Reader
}

func dialFTP(t testing.TB, addr string) *dialogue {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	testkit.Must(t, err)
	c.SetDeadline(time.Now().Add(testkit.Patience))
	d := &dialogue{t: t, ctrl: c, text: textproto.NewReader(bufio.NewReader(c))}
	d.reply(2)
	d.cmd(3, "USER "+batchtest.Robot)
	d.cmd(2, "PASS "+batchtest.Secret)
	d.cmd(2, "TYPE I")
	return d
}

func (d *dialogue) reply(class int) string {
	d.t.Helper()
	_, text, err := d.text.ReadResponse(class)
	testkit.Must(d.t, err)
	return text
}

func (d *dialogue) cmd(class int, line string) string {
	d.t.Helper()
	fmt.Fprintf(d.ctrl, "%s\r\n", line)
	return d.reply(class)
}

// stor begins to store from an offset and gives the data connection.
func (d *dialogue) stor(name string, at int) net.Conn {
	d.t.Helper()
	text := d.cmd(2, "EPSV")
	port := text[strings.Index(text, "|||")+3 : strings.LastIndex(text, "|")]
	host, _, _ := net.SplitHostPort(d.ctrl.RemoteAddr().String())
	data, err := net.Dial("tcp", net.JoinHostPort(host, port))
	testkit.Must(d.t, err)
	if at > 0 {
		d.cmd(3, "REST "+strconv.Itoa(at))
	}
	d.cmd(1, "STOR "+name)
	return data
}

type ftpCut struct {
	name string
	cut  func(d *dialogue, data net.Conn)
}

// ftpCuts are the ways in which a STOR ends too early. Of the first the server
// cannot know: it answers 226, and only the manifest's digest tells.
var ftpCuts = []ftpCut{
	{"data closed", func(d *dialogue, data net.Conn) { data.Close(); d.reply(226) }},
	{"data reset", func(d *dialogue, data net.Conn) { reset(data); d.text.ReadResponse(0) }}, // 426, or 226 where the reset overtakes nothing
	{"control closed", func(d *dialogue, data net.Conn) { d.ctrl.Close(); data.Close() }},
	{"killed", func(d *dialogue, data net.Conn) { reset(data); reset(d.ctrl) }},
	{"ABOR", func(d *dialogue, data net.Conn) { d.cmd(4, "ABOR"); data.Close(); d.reply(226) }},
}

// TestFTPCuts is TestHTTPCuts for STOR. Several batches share the cuts; a busy server
// may still count connections that were cut long ago.
func TestFTPCuts(t *testing.T) {
	testkit.Slow(t)
	h := newHouse(t)
	addr := h.serveFTP(ftp.Config{MaxPerAddr: 500, MaxPerAccount: 500})
	const batches = 10
	var all sync.WaitGroup
	for n := range batches {
		b := batchtest.Make(t, h.robots, int64(n+1), batchtest.Site(fmt.Sprintf("a%d.example.jp", n), 12), batchtest.Site(fmt.Sprintf("b%d.example.jp", n), 5))
		points := cutPoints(b, leastCuts)
		all.Go(func() {
			for i := n; i < len(points); i += batches {
				h.cutFTP(addr, b, points[i], ftpCuts[i/batches%len(ftpCuts)])
			}
			h.finishFTP(addr, b)
		})
	}
	all.Wait()
}

// cutFTP cuts an upload after so many bytes of the batch.
func (h *house) cutFTP(addr string, b *batchtest.Batch, to int, how ftpCut) {
	d := dialFTP(h.t, addr)
	at := d.size(b)
	if at > to {
		at = 0 // afresh
	}
	data := d.stor(string(b.ID)+".tar.gz", at)
	data.Write(b.Data[at:to])
	how.cut(d, data)
	d.ctrl.Close()
	again := dialFTP(h.t, addr)
	defer again.ctrl.Close()
	if kept := again.size(b); kept < at || kept > to {
		h.t.Errorf("%s after %d: %d are kept, %d were", how.name, to, kept, at)
	}
	data = again.stor(string(b.ID)+".manifest", 0)
	data.Write(b.Signed)
	data.Close()
	if text := again.reply(450); !strings.Contains(text, "send the rest") {
		h.t.Errorf("%s after %d: the manifest is answered %s", how.name, to, text)
	}
	if r, err := h.in.Acceptor.Receipt(h.t.Context(), b.ID); r != nil || err != nil {
		h.t.Errorf("%s after %d: there is a receipt %+v, %v", how.name, to, r, err)
	}
}

// finishFTP sends the rest and checks what is published.
func (h *house) finishFTP(addr string, b *batchtest.Batch) {
	d := dialFTP(h.t, addr)
	defer d.ctrl.Close()
	at := d.size(b)
	data := d.stor(string(b.ID)+".tar.gz", at)
	data.Write(b.Data[at:])
	data.Close()
	d.reply(226)
	kept, err := os.ReadFile(filepath.Join(h.opt.Dir, "receive", string(b.ID)+".ftp"))
	if err != nil || !bytes.Equal(kept, b.Data) {
		h.t.Errorf("the bytes that are kept are not those that were sent: %v", err)
	}
	data = d.stor(string(b.ID)+".manifest", 0)
	data.Write(b.Signed)
	data.Close()
	d.reply(226)
	h.awaitPublished(b)
	h.wantOnce(b)
}

// size is what the server keeps of the batch.
func (d *dialogue) size(b *batchtest.Batch) int {
	fmt.Fprintf(d.ctrl, "SIZE %s.tar.gz\r\n", b.ID)
	code, text, err := d.text.ReadResponse(0)
	if code == 550 {
		return 0
	}
	n, aerr := strconv.Atoi(text)
	if err != nil || aerr != nil {
		d.t.Errorf("SIZE: %d %s, %v", code, text, err)
	}
	return n
}
