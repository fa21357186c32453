package archive

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/archive/naming"
	"sheaf/internal/testkit"
)

// TestReopenAtEveryByte cuts an unsealed segment at every byte of its last cell,
// as a crash may: what was whole stays, and appending the lost record again gives the same segment.
func TestReopenAtEveryByte(t *testing.T) {
	testkit.Slow(t)
	records := func() []*Record {
		return []*Record{
			page("/a.html", "text/html", []byte("first"), 0),
			{Kind: Response, URL: "http://" + testHost + "/b", Time: testTime, HTTP: []byte("HTTP/1.1 404 No\r\n\r\n"), Body: strings.NewReader("no")},
			page("/c.html", "text/html", testkit.Text(800, 7), 1),
		}
	}
	want, x := seal(t, records(), "crash")
	last := x.Cells[len(x.Cells)-1]
	path := filepath.Join(t.TempDir(), "segment")
	for cut := last.Offset; cut < last.Offset+last.Len(); cut++ {
		if err := os.WriteFile(path, want[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		checkReopened(t, path, want, records()[2])
	}
	// A file may also be longer than what reached the disk: the rest reads as zeros.
	for cut := last.Offset; cut < last.Offset+last.Len()-1; cut += 13 {
		torn := append(bytes.Clone(want[:cut]), make([]byte, last.Len())...)
		if err := os.WriteFile(path, torn, 0o644); err != nil {
			t.Fatal(err)
		}
		checkReopened(t, path, want, records()[2])
	}
}

func checkReopened(t *testing.T, path string, want []byte, lost *Record) {
	t.Helper()
	w, cells, err := Reopen(path, testHost, "crash", WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(cells) != 2 {
		t.Fatalf("%d cells are whole, want 2", len(cells))
	}
	if _, err := w.Append(lost); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Seal(); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, want) {
		t.Fatal("the segment differs from the one without a crash")
	}
}

// TestReopenWhileSealing cuts at every byte of the index cell and the end member.
func TestReopenWhileSealing(t *testing.T) {
	testkit.Slow(t)
	want, x := seal(t, []*Record{page("/a.html", "text/html", []byte("one"), 0)}, "crash")
	path := filepath.Join(t.TempDir(), "segment")
	for cut := x.CellsEnd; cut <= int64(len(want)); cut++ {
		if err := os.WriteFile(path, want[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		w, cells, err := Reopen(path, testHost, "crash", WriterOptions{})
		if err != nil || len(cells) != 1 {
			t.Fatalf("cut at %d: %d cells, %v", cut, len(cells), err)
		}
		if _, err := w.Seal(); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path); !bytes.Equal(got, want) {
			t.Fatalf("cut at %d: the segment differs from the one without a crash", cut)
		}
	}
}

func TestFailedAppendLeavesNoTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "segment")
	w, err := Create(path, testHost, "s", WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	good := func() *Record { return page("/a.html", "text/html", []byte("one"), 0) }
	if _, err := w.Append(good()); err != nil {
		t.Fatal(err)
	}
	refused := []func(*Record){
		func(r *Record) { r.URL = "http://other.test/" },
		func(r *Record) { r.URL = "http://" + testHost + "/" + strings.Repeat("x", naming.MaxURL) },
		func(r *Record) { r.URL = "http://" + testHost + "/\n" },
		func(r *Record) { r.URL = "ftp://" + testHost + "/" },
		func(r *Record) { r.HTTP = []byte("HTTP/1.1 200 OK\r\n") },
		func(r *Record) { r.HTTP = []byte("200 OK\r\n\r\n") },
		func(r *Record) { r.IP = "localhost" },
		func(r *Record) { r.Truncated = "tired" },
		func(r *Record) { r.Kind, r.PayloadDigest = Revisit, "sha512:AAAA" },
		func(r *Record) { r.Kind = 9 },
	}
	for i, spoil := range refused {
		r := good()
		spoil(r)
		if _, err := w.Append(r); !errors.Is(err, ErrRefused) {
			t.Errorf("case %d: error %v, want ErrRefused", i, err)
		}
	}
	if _, err := w.Seal(); err != nil {
		t.Fatal(err)
	}
	want, _ := seal(t, []*Record{good()}, "s")
	if got, _ := os.ReadFile(path); !bytes.Equal(got, want) {
		t.Error("refused records left a trace")
	}
}
