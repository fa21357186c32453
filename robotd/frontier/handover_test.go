package frontier

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// begun returns a host with a finished page, one that failed and is queued again, one that is
// queued, and one of an earlier cycle.
func begun(t testing.TB) (*Frontier, *Host) {
	t.Helper()
	f, err := Open(t.TempDir(), 1)
	testkit.Must(t, err)
	h, err := f.Host("a.test")
	testkit.Must(t, err)
	push := func(urls ...string) {
		t.Helper()
		for _, u := range urls {
			_, err := h.Push(Entry{URL: u, Depth: 1})
			testkit.Must(t, err)
		}
	}
	head := func() {
		t.Helper()
		_, _, err := h.Head()
		testkit.Must(t, err)
	}
	push("http://a.test/old")
	head()
	testkit.Must(t, h.Finish(Done{Visit: Visit{Digest: "sha256:OLD", Full: time.Unix(1000, 0), ETag: `"x"`}}))
	testkit.Must(t, f.Advance(2))
	h, err = f.Host("a.test")
	testkit.Must(t, err)
	push("http://a.test/", "http://a.test/fails", "https://a.test/queued")
	head()
	testkit.Must(t, h.Finish(Done{Segment: "s", End: 100, Visit: Visit{Digest: "sha256:NEW", Full: time.Unix(2000, 0)}}))
	head()
	testkit.Must(t, h.Retry())
	return f, h
}

// A host goes on at its next robot where it was: what is finished is not visited again, what is
// queued comes in its order, with its tries, and what earlier cycles learned is kept.
func TestHandover(t *testing.T) {
	_, h := begun(t)
	var body bytes.Buffer
	queued, lines, err := h.Export(&body, true)
	if err != nil || lines != 5 || queued {
		t.Fatalf("%d lines, queued %t, %v", lines, queued, err)
	}
	f, err := Open(t.TempDir(), 7)
	testkit.Must(t, err)
	testkit.Must(t, f.Import("a.test", bytes.NewReader(body.Bytes()), 1<<20, queued))
	to, err := f.Host("a.test")
	testkit.Must(t, err)
	if to.Left() != 2 || !to.Begun() || to.Len() != 3 {
		t.Errorf("%d left of %d, begun %t", to.Left(), to.Len(), to.Begun())
	}
	if n, err := to.Push(Entry{URL: "http://a.test/"}, Entry{URL: "http://a.test/new"}); n != 1 || err != nil {
		t.Errorf("of a finished and a new URL %d are queued, %v", n, err)
	}
	for _, want := range []Entry{{URL: "https://a.test/queued", Depth: 1}, {URL: "http://a.test/fails", Depth: 1, Tries: 1}, {URL: "http://a.test/new"}} {
		e, ok, err := to.Head()
		if err != nil || !ok || e != want {
			t.Errorf("next is %+v, %t, %v; want %+v", e, ok, err, want)
		}
		testkit.Must(t, to.Finish(Done{}))
	}
	if v, ok, err := to.Visit("http://a.test/old"); !ok || err != nil || v.Digest != "sha256:OLD" || v.ETag != `"x"` {
		t.Errorf("of an earlier cycle %+v is known, %t, %v", v, ok, err)
	}
	if _, ok, _ := to.Visit("http://a.test/"); ok {
		t.Error("a page that the service may still refuse counts as archived")
	}
	if err := f.Import("a.test", bytes.NewReader(body.Bytes()), 1<<20, queued); err == nil {
		t.Error("a host that is known already was taken over")
	}
	reopened, err := f.open("a.test", 7)
	testkit.Must(t, err)
	if reopened.Left() != 0 {
		t.Errorf("%d are left after a restart", reopened.Left())
	}
}

func plain(t testing.TB, body []byte) string {
	z, err := gzip.NewReader(bytes.NewReader(body))
	testkit.Must(t, err)
	text, err := io.ReadAll(z)
	testkit.Must(t, err)
	return string(text)
}

func packed(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.Bytes()
}

// A body that is cut, of another host, or otherwise not what a robot writes is refused, and leaves
// nothing.
func TestWrongHandoversAreRefused(t *testing.T) {
	_, h := begun(t)
	var body bytes.Buffer
	_, _, err := h.Export(&body, true)
	testkit.Must(t, err)
	text := plain(t, body.Bytes())
	lines := strings.SplitAfter(text, "\n")
	f, err := Open(t.TempDir(), 7)
	testkit.Must(t, err)
	elsewhere := Entry{URL: "http://b.test/"}
	for name, wrong := range map[string][]byte{
		"no gzip":         []byte(text),
		"cut file":        body.Bytes()[:body.Len()-9],
		"cut text":        packed(strings.Join(lines[:3], "")),
		"fewer lines":     packed(strings.Join(lines[1:], "")),
		"more after":      packed(text + lines[0]),
		"damaged line":    packed(strings.Replace(text, "fails", "falls", 1)),
		"another host's":  packed("q" + string(elsewhere.append(nil, "a.test")) + "e1\n"),
		"unknown kind":    packed("x" + lines[0][1:] + "e1\n"),
		"order":           packed(lines[3] + lines[0] + "e2\n"),
		"the same page":   packed(lines[4] + lines[4] + "e2\n"),
		"empty":           nil,
		"empty line":      packed("\ne1\n"),
		"endless":         packed(strings.Repeat(lines[0], 100_000) + "e100000\n"),
		"one endless one": packed("q" + strings.Repeat("a", 1<<20)),
	} {
		if err := f.Import("a.test", bytes.NewReader(wrong), 1<<20, true); !errors.Is(err, ErrHandover) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if f.Has("a.test") {
		t.Error("something of a wrong hand-over is left")
	}
}

// FuzzHandover imports arbitrary text. What is accepted can be used, exported and imported again.
func FuzzHandover(f *testing.F) {
	_, h := begun(f)
	var body bytes.Buffer
	if _, _, err := h.Export(&body, true); err != nil {
		f.Fatal(err)
	}
	f.Add(plain(f, body.Bytes()), true)
	f.Add("e0\n", false)
	f.Fuzz(func(t *testing.T, text string, queued bool) {
		to, err := Open(t.TempDir(), 3)
		testkit.Must(t, err)
		if err := to.Import("a.test", bytes.NewReader(packed(text)), 1<<20, queued); err != nil {
			if !errors.Is(err, ErrHandover) {
				t.Fatal(err)
			}
			return
		}
		h, err := to.Host("a.test")
		testkit.Must(t, err)
		if h.Damaged() {
			t.Fatalf("damaged after import: %q", text)
		}
		var again bytes.Buffer
		_, lines, err := h.Export(&again, true)
		testkit.Must(t, err)
		if want := strings.Count(text, "\n"); lines > want {
			t.Fatalf("%d lines of %d", lines, want)
		}
		next, err := Open(t.TempDir(), 4)
		testkit.Must(t, err)
		testkit.Must(t, next.Import("a.test", &again, 1<<20, queued))
	})
}
