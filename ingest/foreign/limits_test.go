package foreign

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sheaf/internal/stream"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
)

// sparseGNU is a tar whose one file has 8 GiB and holds nothing.
func sparseGNU() string {
	h := batchtest.TarHeader("www.example.jp/hole.bin", 'S', 0, func(h []byte) {
		copy(h[257:], "ustar  \x00")
		copy(h[386:], "77777777777\x0000000000000\x00") // one stretch, at the end and empty
		copy(h[483:], "77777777777\x00")
	})
	return string(h) + strings.Repeat("\x00", 1024)
}

// sparsePAX is the same as GNU tar writes it today, and as it did before.
func sparsePAX(version string) string {
	const size = "8589934591"
	var x, data []byte
	switch version {
	case "1.0":
		x = batchtest.Pax('x', "GNU.sparse.major", "1", "GNU.sparse.minor", "0", "GNU.sparse.name", "www.example.jp/hole.bin", "GNU.sparse.realsize", size)
		data = batchtest.Padded([]byte("1\n" + size + "\n0\n"))
	default:
		x = batchtest.Pax('x', "GNU.sparse.size", size, "GNU.sparse.numblocks", "1", "GNU.sparse.map", size+",0")
	}
	h := batchtest.TarHeader("www.example.jp/hole.bin", '0', len(data))
	return string(x) + string(h) + string(data) + strings.Repeat("\x00", 1024)
}

// convertWithin converts a file in a directory that must be as empty afterwards.
func convertWithin(t *testing.T, ctx context.Context, data string, limits Limits, out io.Writer) (*Result, error) {
	t.Helper()
	dir := t.TempDir()
	name := filepath.Join(t.TempDir(), "foreign")
	testkit.Must(t, os.WriteFile(name, []byte(data), 0o600))
	f, err := os.Open(name)
	testkit.Must(t, err)
	defer f.Close()
	res, err := Convert(ctx, f, out, Options{Robot: "import", Dir: dir, Limits: limits})
	left, derr := os.ReadDir(dir)
	testkit.Must(t, derr)
	if len(left) > 0 {
		t.Errorf("%d files are left, such as %s", len(left), left[0].Name())
	}
	return res, err
}

// A file that is small as it comes and large once it is expanded is refused before it is written
// out.
func TestExpansionIsBounded(t *testing.T) {
	t.Parallel()
	files := map[string]string{"www.example.jp/a.html": "a", "www.example.jp/b.html": "b", "www.example.jp/c.html": strings.Repeat("c", 9<<10)}
	three := tree(t, tar.FormatUSTAR, files, "www.example.jp/a.html", "www.example.jp/b.html", "www.example.jp/c.html")
	coded := func(field string) (records string) {
		for n := range 3 {
			records += rec("1.1", "response", fmt.Sprintf("http://a.example.jp/%d", n), answer, "HTTP/1.1 200 OK\r\n"+field+"\r\n\r\n"+gz(strings.Repeat("z", 8<<10)))
		}
		return records
	}
	bodies, transferred := coded("Content-Encoding: gzip"), coded("Transfer-Encoding: gzip")
	for name, c := range map[string]struct {
		data   string
		limits Limits
		says   string // empty: it is taken
	}{
		"sparse GNU":                {gz(sparseGNU()), Limits{}, "200 for each"},
		"sparse PAX 1.0":            {gz(sparsePAX("1.0")), Limits{}, "200 for each"},
		"sparse PAX 0.1":            {gz(sparsePAX("0.1")), Limits{}, "200 for each"},
		"sparse, not gzipped":       {sparseGNU(), Limits{}, "200 for each"},
		"sparse by setting":         {gz(sparseGNU()), Limits{Bytes: 1 << 20}, "import.max_bytes"},
		"tar over the bytes":        {three, Limits{Bytes: 8 << 10}, "import.max_bytes"},
		"tar within the bytes":      {three, Limits{Bytes: 32 << 10}, ""},
		"tar over the entries":      {three, Limits{Entries: 2}, "import.max_entries"},
		"tar within the entries":    {three, Limits{Entries: 3}, ""},
		"bodies over the bytes":     {bodies, Limits{Bytes: 20 << 10}, "import.max_bytes"},
		"bodies within the bytes":   {bodies, Limits{Bytes: 30 << 10}, ""},
		"transfer over the bytes":   {transferred, Limits{Bytes: 20 << 10}, "import.max_bytes"},
		"transfer within the bytes": {transferred, Limits{Bytes: 30 << 10}, ""},
		"chunks over the bytes":     {coded("Transfer-Encoding: gzip, chunked"), Limits{Bytes: 20 << 10}, "import.max_bytes"},
		"WARC over the entries":     {bodies, Limits{Entries: 2}, "import.max_entries"},
	} {
		_, err := convertWithin(t, t.Context(), c.data, c.limits, io.Discard)
		var fault *Error
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.says != "" && (!errors.As(err, &fault) || fault.Reason != wire.ReasonBombRatio || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want %s: …%s…", name, err, wire.ReasonBombRatio, c.says)
		}
	}
}

// stopper ends a context when the first byte is written.
type stopper struct{ stop context.CancelFunc }

func (s stopper) Write(p []byte) (int, error) { s.stop(); return len(p), nil }

// A conversion ends with its context, wherever it is, and what it has begun is gone.
func TestConversionStops(t *testing.T) {
	t.Parallel()
	t.Run("in a hole", func(t *testing.T) {
		t.Parallel()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		stopped := stream.UntilDone(ctx, readerFunc(func(p []byte) (int, error) { stop(); return len(p), nil }))
		b := block{dir: t.TempDir()}
		defer b.reset()
		s := &input{}
		if err := s.reading(b.fill(stopped), "x"); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want that the context has ended", err)
		}
	})
	t.Run("while the batch is written", func(t *testing.T) {
		t.Parallel()
		ctx, stop := context.WithCancel(t.Context())
		files := map[string]string{}
		var names []string
		for n := range 3 {
			name := fmt.Sprintf("h%d.example.jp/a.bin", n)
			files[name], names = noise(1<<20), append(names, name)
		}
		_, err := convertWithin(t, ctx, tree(t, tar.FormatUSTAR, files, names...), Limits{}, stopper{stop})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want that the context has ended", err)
		}
	})
}

// endsAt is a context that has ended when it is asked for the n-th time.
type endsAt struct {
	context.Context
	left int
}

func (c *endsAt) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// Wherever a conversion is when its context ends, it fails with the context's error. It neither
// ends as if the file had ended there nor says that the file is damaged.
func TestConversionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	packed := gz(strings.Repeat("a page of some length, ", 1<<12))
	data := gz(rec("1.1", "response", "http://a.example.jp/", answer, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\n\r\n"+gz(packed, gz(), "")) +
		rec("1.1", "response", "http://b.example.jp/", answer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks("a page")+"\r\n"))
	name := filepath.Join(t.TempDir(), "foreign")
	testkit.Must(t, os.WriteFile(name, []byte(data), 0o600))
	for _, lenient := range []bool{false, true} {
		for n, whole := 0, false; !whole; n++ {
			f, err := os.Open(name)
			testkit.Must(t, err)
			_, err = Convert(&endsAt{t.Context(), n}, f, io.Discard, Options{Robot: "import", Dir: t.TempDir(), Lenient: lenient})
			if whole = err == nil; !whole && !errors.Is(err, context.Canceled) {
				t.Fatalf("lenient %t, at its %d. question: %v", lenient, n, err)
			}
			if whole && n < 20 {
				t.Errorf("lenient %t: the context is asked %d times only", lenient, n)
			}
			f.Close()
		}
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A full disk is no fault of the file.
func TestDiskIsNoFault(t *testing.T) {
	t.Parallel()
	b := block{dir: filepath.Join(t.TempDir(), "gone")}
	err := (&input{}).reading(b.fill(strings.NewReader(noise(2<<20))), "x")
	var fault *Error
	if err == nil || errors.As(err, &fault) {
		t.Errorf("%v, want the disk's own error", err)
	}
}

// used is how long the processors have worked for this process.
func used(t testing.TB) time.Duration {
	var u syscall.Rusage
	testkit.Must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Work is bounded by what came: members of gzip that hold nothing do not keep the service busy.
func TestEmptyMembers(t *testing.T) {
	good := tree(t, tar.FormatUSTAR, map[string]string{"www.example.jp/a.html": "a"}, "www.example.jp/a.html")
	empty := strings.Repeat(gz(""), 200_000)
	for name, data := range map[string]string{
		"behind": good + empty, "before": empty + good,
		"behind a large one": tree(t, tar.FormatUSTAR, map[string]string{"www.example.jp/a.bin": noise(1 << 20)}, "www.example.jp/a.bin") + empty,
	} {
		before := used(t)
		_, err := convertWithin(t, t.Context(), data, Limits{}, io.Discard)
		testkit.Must(t, err)
		if took := used(t) - before; took > 5*time.Second { // a hundred times what it takes
			t.Errorf("%s: %v of the processors' time", name, took)
		}
	}
}
