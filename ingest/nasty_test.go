package ingest_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/ingest/inbox"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

// nasty is a bad batch: how to make it, and what the quarantine must say about it.
type nasty struct {
	name  string
	want  wire.Reason
	entry string // in the detail
	make  func(t *testing.T, h *installation, b *batchtest.Batch) *batchtest.Batch
}

// inTar returns a batch with other tar headers in the place of that of the first host's second
// page.
func inTar(name string, want wire.Reason, entry string, headers ...[]byte) nasty {
	return nasty{name, want, entry, func(t *testing.T, h *installation, b *batchtest.Batch) *batchtest.Batch {
		members := batchtest.Members(b.Range(0))
		members[2] = batchtest.Member(bytes.Join(headers, nil), nil)
		return h.robots.Reframe(t, b, bytes.Join(members, nil), b.Range(1))
	}}
}

// inBytes returns a batch with other gzip members of the first host.
func inBytes(name string, want wire.Reason, entry string, change func(members [][]byte) [][]byte) nasty {
	return nasty{name, want, entry, func(t *testing.T, h *installation, b *batchtest.Batch) *batchtest.Batch {
		members := change(batchtest.Members(b.Range(0)))
		return h.robots.Reframe(t, b, bytes.Join(members, nil), b.Range(1))
	}}
}

// afterEnd returns a good batch with bytes behind its end.
func afterEnd(name string, more func(b *batchtest.Batch) []byte) nasty {
	return nasty{name, wire.ReasonCorruptMember, "_batch/manifest.json", func(t *testing.T, h *installation, b *batchtest.Batch) *batchtest.Batch {
		b.Data = append(b.Data, more(b)...)
		return h.robots.Resign(t, b)
	}}
}

func zeroPage(n int) batchtest.Host {
	return batchtest.Host{Name: "one.example.jp", Each: func(yield func(batchtest.Page) bool) {
		yield(batchtest.Page{Path: "/zeros.html", Body: make([]byte, n)})
	}}
}

const foreignHost = "foreign.example.jp"

func corpus(t *testing.T) []nasty {
	const page = "one.example.jp/1.html"
	const one = "one.example.jp"
	file := batchtest.TarHeader(page, '0', 0)
	long := strings.Repeat("d/", 100) + "f"
	link := func(h []byte) { copy(h[157:], "/etc/passwd") }
	kind := func(k byte) []byte { return batchtest.TarHeader(page, k, 0, link) }
	named := func(name string) []byte { return batchtest.TarHeader(name, '0', 0) }
	plainGzip := func() []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		w.Write(append(named("/etc/passwd"), make([]byte, 1024)...))
		w.Close()
		return out.Bytes()
	}()
	const (
		corrupt, link_, path, bomb = wire.ReasonCorruptMember, wire.ReasonLinkEntry, wire.ReasonPathEscape, wire.ReasonBombRatio
		sha, cut, clock            = wire.ReasonSHAMismatch, wire.ReasonTruncated, wire.ReasonClock
	)
	list := []nasty{
		inTar("symbolic link", link_, one, kind('2')),
		inTar("hard link", link_, one, kind('1')),
		inTar("character device", link_, one, kind('3')),
		inTar("block device", link_, one, kind('4')),
		inTar("directory", link_, one, kind('5')),
		inTar("pipe", link_, one, kind('6')),
		inTar("link after PAX", link_, one, batchtest.Pax('x', "path", long), kind('2')),

		inTar("absolute", path, "/etc/passwd", named("/etc/passwd")),
		inTar("dots first", path, "../../x", named("../../x")),
		inTar("dots within", path, "one.example.jp/../x", named("one.example.jp/../x")),
		inTar("dots last", path, "one.example.jp/..", named("one.example.jp/..")),
		inTar("backslashes", path, `one.example.jp\..\x`, named(`one.example.jp\..\x`)),
		inTar("no name", path, one, named("")),
		inTar("another host's directory", path, "two.example.jp/1.html", named("two.example.jp/1.html")),
		inTar("absolute by PAX", path, "/etc/shadow", batchtest.Pax('x', "path", "/etc/shadow"), file),
		inTar("dots by PAX", path, "../"+long, batchtest.Pax('x', "path", "../"+long), file),

		inTar("GNU long name", corrupt, one, batchtest.TarHeader("././@LongLink", 'L', len(long)), batchtest.Padded([]byte(long)), file),
		inTar("GNU long link", corrupt, one, batchtest.TarHeader("././@LongLink", 'K', len(long)), batchtest.Padded([]byte(long)), file),
		inTar("GNU sparse", corrupt, one, kind('S')),
		inTar("GNU sparse by PAX", corrupt, one, batchtest.Pax('x', "GNU.sparse.major", "1", "GNU.sparse.name", "/etc/passwd"), file),
		inTar("GNU multi-volume", corrupt, one, kind('M')),
		inTar("GNU label", corrupt, one, kind('V')),
		inTar("GNU dump directory", corrupt, one, kind('D')),
		inTar("old file type", corrupt, one, kind(0)),
		inTar("contiguous file", corrupt, one, kind('7')),
		inTar("global header", corrupt, one, batchtest.Pax('g', "path", "/etc/passwd"), file),
		inTar("global header alone", corrupt, one, batchtest.TarHeader("g", 'g', 0)),
		inTar("PAX link", corrupt, one, batchtest.Pax('x', "linkpath", "/etc/passwd"), file),
		inTar("PAX size", corrupt, one, batchtest.Pax('x', "size", "99999999999"), file),
		inTar("PAX path twice", corrupt, one, batchtest.Pax('x', "path", page, "path", "/etc/passwd"), file),
		inTar("PAX twice", corrupt, one, batchtest.Pax('x', "path", long), batchtest.Pax('x', "path", "/etc/passwd"), file),
		inTar("PAX alone", corrupt, one, batchtest.Pax('x', "path", "/etc/passwd")),
		inTar("PAX beyond its end", corrupt, one, batchtest.TarHeader("x", 'x', 1<<30), file),
		inTar("name prefix", corrupt, one, batchtest.TarHeader(page, '0', 0, func(h []byte) { copy(h[345:], "/etc") })),
		inTar("size in base 256", corrupt, one, batchtest.TarHeader(page, '0', 0, func(h []byte) { h[124] = 0x80 })),
		inTar("wrong size", corrupt, page, batchtest.TarHeader(page, '0', 1<<20)),
		inTar("wrong sum", corrupt, one, append([]byte("z"), file[1:]...)),
		inTar("two files", corrupt, one, file, named("/etc/passwd")),
		inTar("an archive's end within", corrupt, one, make([]byte, 1024), file),
		inTar("half a block", corrupt, one, file[:256]),
		inTar("bomb of headers", bomb, one, make([]byte, 8<<20)),

		inBytes("bomb of a record's header", bomb, one, func(m [][]byte) [][]byte { m[3] = headBomb(2 << 20); return m }),
		inBytes("an end within", cut, one, func(m [][]byte) [][]byte { return slices.Insert(m, 2, archive.EndMember(0, 0)) }),
		inBytes("without index", cut, one, func(m [][]byte) [][]byte { return m[:len(m)-2] }),
		inBytes("index twice", corrupt, one, func(m [][]byte) [][]byte { return append(m, m[len(m)-2:]...) }),
		inBytes("page dropped", corrupt, one, func(m [][]byte) [][]byte { return slices.Delete(m, 2, 4) }),
		inBytes("pages exchanged", corrupt, one, func(m [][]byte) [][]byte { m[0], m[1], m[2], m[3] = m[2], m[3], m[0], m[1]; return m }),
		inBytes("a plain gzip within", corrupt, one, func(m [][]byte) [][]byte { return slices.Insert(m, 2, plainGzip) }),
		inBytes("no gzip at all", corrupt, one, func(m [][]byte) [][]byte { return [][]byte{[]byte(strings.Repeat("BZh9", 100))} }),
		inBytes("flipped bit", corrupt, one, func(m [][]byte) [][]byte {
			m[3] = bytes.Clone(m[3])
			m[3][len(m[3])-5] ^= 1
			return m
		}),

		afterEnd("another batch behind", func(b *batchtest.Batch) []byte { return b.Data }),
		afterEnd("a plain gzip behind", func(*batchtest.Batch) []byte { return plainGzip }),
		afterEnd("zeros behind", func(*batchtest.Batch) []byte { return make([]byte, 512) }),
		afterEnd("one byte behind", func(*batchtest.Batch) []byte { return []byte{0} }),

		{"bomb of a page", bomb, one, func(t *testing.T, h *installation, b *batchtest.Batch) *batchtest.Batch {
			return renamed(t, h, b, zeroPage(maxBody-1<<20))
		}},
		{"page too large", bomb, one, func(t *testing.T, h *installation, b *batchtest.Batch) *batchtest.Batch {
			return renamed(t, h, b, zeroPage(maxBody+1))
		}},
		{"bomb of a manifest", bomb, "_batch/manifest.json", func(t *testing.T, h *installation, b *batchtest.Batch) *batchtest.Batch {
			last := b.Manifest.Hosts[1]
			b.Data = append(b.Data[:last.Offset+last.Length], batchtest.Tail(t, bytes.Repeat([]byte(" "), 65<<20))...)
			return h.robots.Resign(t, b)
		}},
		{"damaged on its way", sha, "batch.tar.gz", func(t *testing.T, h *installation, b *batchtest.Batch) *batchtest.Batch {
			b.Data[len(b.Data)/3] ^= 1
			return b
		}},
		{"host's digest", sha, "two.example.jp", func(t *testing.T, h *installation, b *batchtest.Batch) *batchtest.Batch {
			b.Manifest.Hosts[1].SHA256 = strings.Repeat("0", 64)
			return h.robots.Resign(t, b)
		}},
		{"another manifest inside", sha, "_batch/manifest.json", func(t *testing.T, h *installation, b *batchtest.Batch) *batchtest.Batch {
			b.Manifest.Version = "other"
			return h.robots.Resign(t, b)
		}},
		{"foreign host", wire.ReasonHostNotAssigned, foreignHost, func(t *testing.T, h *installation, b *batchtest.Batch) *batchtest.Batch {
			return renamed(t, h, b, batchtest.Site(foreignHost, 1))
		}},
		{"sealed in the future", clock, "_batch/manifest.json", func(t *testing.T, h *installation, b *batchtest.Batch) *batchtest.Batch {
			b.Manifest.Created = time.Now().Add(48 * time.Hour)
			return h.robots.Reframe(t, b, b.Range(0), b.Range(1))
		}},
		{"page of the future", clock, one, func(t *testing.T, h *installation, b *batchtest.Batch) *batchtest.Batch {
			site := batchtest.Site(one, 1)
			site.Start = time.Now().Add(48 * time.Hour)
			return renamed(t, h, b, site)
		}},
	}
	return append(list, cuts(t)...)
}

// renamed makes another batch with b's ID.
func renamed(t *testing.T, h *installation, b *batchtest.Batch, hosts ...batchtest.Host) *batchtest.Batch {
	var n int64
	fmt.Sscan(string(b.ID[strings.LastIndexByte(string(b.ID), '-')+1:]), &n)
	return batchtest.Make(t, h.robots, n, hosts...)
}

// cuts returns batches that end at every boundary of members, in the middle of every member, and at
// every fifth byte of the end member, in the long form at every byte. Each has a manifest that
// fits.
func cuts(t *testing.T) (list []nasty) {
	sample := batchtest.Make(t, batchtest.NewRobots(t), 1, sites()...)
	var at int64
	members := batchtest.Members(sample.Data)
	for n, m := range members {
		for _, in := range []int64{0, int64(len(m)) / 2} {
			if at+in > 0 {
				list = append(list, cutAt(fmt.Sprintf("cut at member %d + %d", n, in), at+in-int64(len(sample.Data))))
			}
		}
		at += int64(len(m))
	}
	for n := 0; n < len(members[len(members)-1]); n += testkit.Size(5, 1) {
		list = append(list, cutAt(fmt.Sprintf("cut %d before the end", n+1), int64(-n-1)))
	}
	return list
}

// cutAt cuts that many bytes before the end.
func cutAt(name string, before int64) nasty {
	return nasty{name, wire.ReasonTruncated, "", func(t *testing.T, h *installation, b *batchtest.Batch) *batchtest.Batch {
		return cut(t, h.robots, b, int64(len(b.Data))+before)
	}}
}

func sites() []batchtest.Host {
	return []batchtest.Host{batchtest.Site("one.example.jp", 3), batchtest.Site("two.example.jp", 2)}
}

const maxBody = 4 << 20

// TestNastyBatches sends one bad batch after another, each followed by a good one.
func TestNastyBatches(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	h := newInstallation(t)
	h.robots.Foreign = []string{foreignHost}
	h.opt.Limits.MaxBody, h.opt.Limits.Grace = maxBody, 1<<20
	h.opt.Limits.Poll = 5 * time.Millisecond
	h.open().run()
	offset := regexp.MustCompile(`offset \d+`)
	for n, c := range corpus(t) {
		t.Run(c.name, func(t *testing.T) {
			h.t = t
			bad := c.make(t, h, batchtest.Make(t, h.robots, int64(2*n+10001), sites()...))
			h.accept(bad)
			good := batchtest.Make(t, h.robots, int64(2*n+10002), batchtest.Site("good.example.jp", 1))
			h.accept(good)
			r := h.await(bad.ID, wire.StateQuarantined)
			if r.Reason != c.want || !offset.MatchString(r.Detail) || !strings.Contains(r.Detail, c.entry) {
				t.Errorf("reason %s (%s), want %s with an offset and %q", r.Reason, r.Detail, c.want, c.entry)
			}
			h.await(good.ID, wire.StatePublished)
			h.kept(string(bad.ID), bad, c.want)
			h.signed(bad, c.want)
		})
	}
	h.t = t
	if lines := h.lines("one.example.jp"); len(lines) != 0 {
		t.Errorf("%d lines of bad batches are public", len(lines))
	}
}

// Hosts are verified several at once. The first bad one of the batch is named, even if a later
// one is found out long before.
func TestFirstFaultIsNamed(t *testing.T) {
	h := newInstallation(t).open().run()
	sites := []batchtest.Host{batchtest.Site("long.example.jp", 500)}
	for n := range 8 {
		sites = append(sites, batchtest.Site(fmt.Sprintf("short%d.example.jp", n), 1))
	}
	b := batchtest.Make(t, h.robots, 10001, sites...)
	ranges := [][]byte{b.Range(0)[:len(b.Range(0))-20]}
	for n := range 8 {
		ranges = append(ranges, b.Range(n + 1)[20:])
	}
	b = h.robots.Reframe(t, b, ranges...)
	h.accept(b)
	if r := h.await(b.ID, wire.StateQuarantined); !strings.Contains(r.Detail, "long.example.jp") {
		t.Errorf("quarantined because of %s (%s), want the first host that is bad", r.Reason, r.Detail)
	}
}

// kept checks that the quarantine holds the same bytes as the batch.
func (h *installation) kept(id string, b *batchtest.Batch, want wire.Reason) {
	h.t.Helper()
	dir := filepath.Join(h.opt.Dir, "quarantine", id)
	testkit.Until(h.t, "the batch is moved aside", func() bool { _, err := os.Stat(dir); return err == nil })
	for file, want := range map[string][]byte{"batch.tar.gz": b.Data, "manifest": b.Signed} {
		if data, err := os.ReadFile(filepath.Join(dir, file)); !bytes.Equal(data, want) {
			h.t.Errorf("%s in quarantine is not what came (%v)", file, err)
		}
	}
	if data, _ := os.ReadFile(filepath.Join(dir, "reason.json")); !bytes.Contains(data, []byte(want)) {
		h.t.Errorf("reason.json is %s", data)
	}
}

// signed checks the robot's receipt for the batch's bytes.
func (h *installation) signed(b *batchtest.Batch, want wire.Reason) *wire.Receipt {
	h.t.Helper()
	r, err := h.in.Acceptor.ReceiptFor(h.t.Context(), b.ID, b.Manifest.SHA256)
	testkit.Must(h.t, err)
	data, err := h.in.Acceptor.Sign(h.t.Context(), r)
	testkit.Must(h.t, err)
	r, err = wire.OpenReceipt(data, h.key.Public().(ed25519.PublicKey))
	testkit.Must(h.t, err)
	if r.State != wire.StateQuarantined || r.Reason != want || r.SHA256 != b.Manifest.SHA256 || r.Detail == "" {
		h.t.Errorf("the robot's receipt is %+v", r)
	}
	return r
}

// TestRefusedAtTheDoor: uploads that are refused when the manifest comes.
func TestRefusedAtTheDoor(t *testing.T) {
	h := newInstallation(t).open().run()
	first := batchtest.Make(t, h.robots, 1, batchtest.Site("one.example.jp", 1))
	forged := batchtest.NewRobots(t).Sign(t, &batchtest.Batch{ID: first.ID, Data: first.Data, Manifest: first.Manifest})
	other := batchtest.Make(t, h.robots, 1, batchtest.Site("one.example.jp", 2))
	for _, c := range []struct {
		want wire.Reason
		bad  *batchtest.Batch
	}{{wire.ReasonBadSignature, forged}, {wire.ReasonIDReuse, other}} {
		_, _, err := h.in.Acceptor.Accept(t.Context(), h.upload(c.bad), c.bad.Signed)
		wantRefusal(t, err, c.want)
		id := string(c.bad.ID) + "+" + wire.Digest(c.bad.Signed)[:12]
		h.kept(id, c.bad, c.want)
		if r := h.signed(c.bad, c.want); !strings.Contains(r.Detail, "offset 0 ("+string(c.bad.ID)+".manifest)") {
			t.Errorf("detail %q names no place", r.Detail)
		}
		var no *inbox.Undecidable
		if _, err := h.in.Quarantine.Release(t.Context(), id, inbox.Order{By: "op"}); !errors.As(err, &no) {
			t.Errorf("release: %v", err)
		}
		_, err = h.in.Quarantine.Discard(t.Context(), id, inbox.Order{By: "op"})
		testkit.Must(t, err)
		if c.want == wire.ReasonBadSignature {
			h.accept(first)
			h.await(first.ID, wire.StatePublished)
		}
	}
	next := batchtest.Make(t, h.robots, 2, batchtest.Site("one.example.jp", 1))
	h.accept(next)
	h.await(next.ID, wire.StatePublished)
}

// headBomb returns a body's member whose record header decodes to n zero bytes.
func headBomb(n int) []byte {
	var blocks bytes.Buffer
	w, _ := flate.NewWriter(&blocks, flate.BestCompression)
	w.Write(make([]byte, n))
	w.Flush()
	wp := append([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"), blocks.Bytes()...)
	more := append([]byte("WS\x11\x00"), make([]byte, 17)...)
	more = binary.LittleEndian.AppendUint16(append(more, "WP"...), uint16(len(wp)))
	return batchtest.Member(nil, append(more, wp...))
}

// cut ends the batch after n bytes, with a manifest that fits and is signed.
func cut(t testing.TB, r *batchtest.Robots, b *batchtest.Batch, n int64) *batchtest.Batch {
	t.Helper()
	m := *b.Manifest
	m.Hosts = nil
	for _, h := range b.Manifest.Hosts {
		if h.Offset < n {
			h.Length = min(h.Length, n-h.Offset)
			h.SHA256 = wire.Digest(b.Data[h.Offset : h.Offset+h.Length])
			m.Hosts = append(m.Hosts, h)
		}
	}
	return r.Resign(t, &batchtest.Batch{ID: b.ID, Data: b.Data[:n:n], Manifest: &m})
}
