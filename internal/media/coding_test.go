package media

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// The members of a body share the memory in which they are decoded.
func TestManyMembers(t *testing.T) {
	const members = 1000
	text := strings.Repeat(gz(""), members) + gz("end")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b := Decode(t.Context(), strings.NewReader(text), []string{"gzip"})
	defer b.Close()
	if got, err := io.ReadAll(b); string(got) != "end" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / members; each > 1<<10 {
		t.Errorf("a member took %d bytes of memory", each)
	}
}

// encoded returns s as what into makes encodes it.
func encoded(s string, into func(io.Writer) io.WriteCloser) string {
	var b bytes.Buffer
	w := into(&b)
	io.WriteString(w, s)
	w.Close()
	return b.String()
}

// Empty members within a text are passed over, also where the text is in a second coding.
func TestEmptyMembersBetweenCodings(t *testing.T) {
	noise := make([]byte, 10_000)
	rand.NewChaCha8([32]byte{}).Read(noise)
	text := fmt.Sprintf("%x", noise) // which gzip does not store as it is
	inner := gz(text)
	b := Decode(t.Context(), strings.NewReader(gz(inner[:5000])+strings.Repeat(gz(""), 1000)+gz(inner[5000:])), []string{"gzip, gzip"})
	defer b.Close()
	if got, err := io.ReadAll(b); string(got) != text || err != nil {
		t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
	}
}

func gz(s string) string {
	return encoded(s, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
}

func zl(s string) string {
	return encoded(s, func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })
}

func br(s string) string {
	return encoded(s, func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) })
}

func fl(s string) string {
	return encoded(s, func(w io.Writer) io.WriteCloser {
		f, _ := flate.NewWriter(w, 6) // only fails for a level that does not exist
		return f
	})
}

func zs(s string, options ...zstd.EOption) string {
	return encoded(s, func(w io.Writer) io.WriteCloser {
		z, err := zstd.NewWriter(w, options...)
		if err != nil {
			panic(err)
		}
		return z
	})
}

func TestDecode(t *testing.T) {
	long := strings.Repeat("a page that is long enough to be compressed, ", 100)
	noise := make([]byte, 100_000)
	rand.NewChaCha8([32]byte{}).Read(noise)
	for _, c := range []struct {
		name, body, want string
		values           []string
		removed, wrong   bool
	}{
		{"none", "page", "page", nil, false, false},
		{"gzip", gz("page"), "page", []string{"gzip"}, true, false},
		{"two members and rubbish", gz("one ") + gz("two") + "rubbish", "one two", []string{"x-gzip"}, true, false},
		{"gzip with all of its header", "\x1f\x8b\x08\x1e\x00\x00\x00\x00\x00\xff\x02\x00xxname\x00note\x00cc" + gz("page")[10:], "page", []string{"gzip"}, true, false},
		{"gzip without checksum", gz("page")[:len(gz("page"))-8], "page", []string{"gzip"}, true, false},
		{"gzip with half a checksum", gz(long)[:len(gz(long))-5], long, []string{"gzip"}, true, false},
		{"gzip with a wrong checksum", gz(long)[:len(gz(long))-8] + "12345678", long, []string{"gzip"}, true, true},
		{"zlib with a wrong checksum", zl("page")[:len(zl("page"))-4] + "1234", "page", []string{"deflate"}, true, true},
		{"zlib without checksum", zl("page")[:len(zl("page"))-4], "page", []string{"deflate"}, true, false},
		{"zstd with a wrong checksum", zs(long)[:len(zs(long))-4] + "1234", long, []string{"zstd"}, true, true},
		{"deflate", fl("page"), "page", []string{"deflate"}, true, false},
		{"br", br(long), long, []string{"br"}, true, false},
		{"zstd", zs(long), long, []string{"zstd"}, true, false},
		{"declared and not there", "<html>", "<html>", []string{"gzip"}, true, false},
		{"two codings", gz(zl("page")), "page", []string{"deflate, gzip"}, true, false},
		{"unknown", "page", "page", []string{"sdch"}, false, false},
		{"unknown beneath", gz("page"), gz("page"), []string{"sdch", "gzip"}, false, false},
		{"empty", "", "", []string{"br"}, true, false},
		{"nothing, deflated", fl(""), "", []string{"deflate"}, true, false},
		{"nothing, in br", br(""), "", []string{"br"}, true, false},
		{"nothing, in zstd", "\x28\xb5\x2f\xfd\x20\x00\x01\x00\x00", "", []string{"zstd"}, true, false},
		{"too many", "page", "page", []string{strings.Repeat("gzip,", 9)}, false, false},
		{"wrong br", "<html>a page", "<html>a page", []string{"br"}, true, true},
		{"wrong deflate", "<html>a page", "<html>a page", []string{"deflate"}, true, true},
		{"wrong zstd", "<html>a page", "<html>a page", []string{"zstd"}, true, true},
		{"what br takes for nothing", "; a comment and a page", "; a comment and a page", []string{"br"}, true, true},
		{"gzip as br", gz(long), gz(long), []string{"br"}, true, true},
		{"br as gzip", br(long), br(long), []string{"gzip"}, true, false},
		{"br as zstd", br(long), br(long), []string{"zstd"}, true, true},
		{"wrong br in gzip", gz("<html>a page"), "<html>a page", []string{"br, gzip"}, true, true},
		{"noise as zstd", string(noise), string(noise), []string{"zstd"}, true, true},
		{"long and wrong", strings.Repeat(long, 100), strings.Repeat(long, 100), []string{"br"}, true, true},
		{"no header of gzip", "\x1f\x8bpage page page", "\x1f\x8bpage page page", []string{"gzip"}, true, true},
	} {
		d := Decode(t.Context(), iotest.OneByteReader(strings.NewReader(c.body)), c.values)
		got, err := io.ReadAll(d)
		if err != nil || string(got) != c.want || d.Removed != c.removed || (d.Absent() || d.Damaged()) != c.wrong {
			t.Errorf("%s: %.60q, %v, removed %v, wrong %v", c.name, got, err, d.Removed, (d.Absent() || d.Damaged()))
		}
		d.Close()
	}
}

// A body that breaks off, in its coding or on its way, gives what came of it and an error.
func TestBrokenOff(t *testing.T) {
	long := strings.Repeat("a page that is long enough to be compressed, ", 100)
	broken := errors.New("broken off")
	for coding, body := range map[string]string{"gzip": gz(long), "deflate": zl(long), "deflate ": fl(long), "br": br(long), "zstd": zs(long)} {
		for name, in := range map[string]io.Reader{
			"in its coding": strings.NewReader(body[:len(body)/2]),
			"on its way":    io.MultiReader(strings.NewReader(body[:len(body)/2]), iotest.ErrReader(broken)),
			"at once":       iotest.ErrReader(broken),
			"at its end":    io.MultiReader(strings.NewReader(body), iotest.ErrReader(broken)),
		} {
			d := Decode(t.Context(), in, []string{coding})
			got, err := io.ReadAll(d)
			if !strings.HasPrefix(long, string(got)) || (d.Absent() || d.Damaged()) {
				t.Errorf("%s, %s: %.60q, wrong %v", coding, name, got, (d.Absent() || d.Damaged()))
			}
			if whole := string(got) == long; err == nil && !whole || name != "at its end" && whole {
				t.Errorf("%s, %s: %d bytes, %v", coding, name, len(got), err)
			}
			d.Close()
		}
	}
}

// What is cut or damaged is decoded as far as it goes.
func TestDecodeCut(t *testing.T) {
	var page strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&page, "<p>%d %d</p>", i, i*7919%10007)
	}
	packed := map[string]string{"gzip": gz(page.String()), "deflate": zl(page.String()), "br": br(page.String()), "zstd": zs(page.String(), zstd.WithWindowSize(1<<12))}
	for name, whole := range packed {
		d := Decode(t.Context(), strings.NewReader(whole[:len(whole)-len(whole)/4]), []string{name})
		got, err := io.ReadAll(d)
		if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) < page.Len()/4 || !strings.HasPrefix(page.String(), string(got)) {
			t.Errorf("%s: %d of %d bytes, %v", name, len(got), page.Len(), err)
		}
		d.Close()
	}
}

// FuzzDecode: whatever is declared of whatever body, decoding ends, and what is not in its coding
// comes as it is.
func FuzzDecode(f *testing.F) {
	for _, coding := range []string{"gzip", "deflate", "br", "zstd", "br, gzip"} {
		for _, body := range []string{"<p>page", gz("page"), zl("page"), fl("page"), br("page"), zs("page"), gz(br("page"))} {
			f.Add(coding, []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, coding string, body []byte) {
		d := Decode(t.Context(), bytes.NewReader(body), []string{coding})
		defer d.Close()
		got, err := io.ReadAll(io.LimitReader(d, 1<<20))
		if !d.Removed && (err != nil || !bytes.Equal(got, body)) {
			t.Errorf("%q became %q, %v", body, got, err)
		}
		if d.Removed && len(body) > empty && isText(body) && !strings.Contains(coding, ",") && !bytes.Equal(got, body) {
			t.Errorf("%s: the text %q became %q, %v", coding, body, got, err)
		}
	})
}

// A few bytes that become hundreds of MB of empty gzip members cost no more than a few bytes may,
// although nothing comes out of them.
func TestNothingOfVeryMuch(t *testing.T) {
	var member bytes.Buffer
	z := gzip.NewWriter(&member)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	w, err := zstd.NewWriter(&body)
	if err != nil {
		t.Fatal(err)
	}
	many := bytes.Repeat(member.Bytes(), 1<<20/member.Len())
	for range 400 {
		if _, err := w.Write(many); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	size := int64(body.Len())
	d := Decode(t.Context(), &body, []string{"gzip, zstd"})
	defer d.Close()
	n, err := io.Copy(io.Discard, d)
	if n != 0 || err != io.ErrUnexpectedEOF {
		t.Errorf("%d bytes, %v; want none and %v", n, err, io.ErrUnexpectedEOF)
	}
	passed := d.layers[1].source.(*between).n
	if most := betweenGrace + betweenRatio*size + 1<<20; passed > most {
		t.Errorf("%d bytes of %d passed between the codings, want at most %d", passed, size, most)
	}
}

// after cancels a context with its n-th read.
type after struct {
	io.Reader
	n      int
	cancel func()
}

func (a *after) Read(p []byte) (int, error) {
	if a.n--; a.n == 0 {
		a.cancel()
	}
	return a.Reader.Read(p[:min(len(p), 100)])
}

// Decoding ends when its context ends: between two blocks of what comes, of what is between two
// codings, and of what comes out.
func TestDecodingEndsWithItsContext(t *testing.T) {
	members := strings.Repeat(gz(""), 1<<20/len(gz("")))
	for name, c := range map[string]struct {
		body, codings string
		reads         int // after which the context ends
	}{
		"members":         {members, "gzip", 20},
		"between codings": {zs(strings.Repeat(members, 8)), "gzip, zstd", 1},
		"what comes out":  {zs(strings.Repeat("page", 1<<20)), "zstd", 1},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		source := &after{strings.NewReader(c.body), c.reads, cancel}
		d := Decode(ctx, source, []string{c.codings})
		n, err := io.Copy(io.Discard, d)
		if !errors.Is(err, context.Canceled) || n > 1<<20 || source.n < 0 {
			t.Errorf("%s: %d bytes and %d reads more, %v", name, n, -source.n, err)
		}
		if len(d.layers) > 1 && d.layers[1].source.(*between).n > 64<<10 {
			t.Errorf("%s: %d bytes passed", name, d.layers[1].source.(*between).n)
		}
		d.Close()
	}
}

// Of a body in more codings than two, nothing is decoded.
func TestThreeCodings(t *testing.T) {
	d := Decode(t.Context(), bytes.NewReader([]byte("as it came")), []string{"gzip, gzip", "zstd"})
	if got, err := io.ReadAll(d); err != nil || string(got) != "as it came" || d.Removed {
		t.Errorf("%q, %v, removed %t", got, err, d.Removed)
	}
}
