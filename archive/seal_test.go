package archive

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"sheaf/internal/testkit"
)

// What a process has written itself it seals without another look at every page, with the result
// that the look has; what was spoilt meanwhile it looks at.
func TestSealWritten(t *testing.T) {
	testkit.Slow(t)
	dir := t.TempDir()
	path, again := filepath.Join(dir, "written"), filepath.Join(dir, "read")
	w, err := Create(path, testHost, "night-1", WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	records, _ := testRecords()
	for i, r := range records {
		if i%7 == 3 { // closed for want of descriptors, and gone on with
			was := w.Written()
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if w, err = Resume(path, testHost, "night-1", was, WriterOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	was := w.Written()
	cells, ok := w.knownCells()
	if !ok || len(cells) != len(records) {
		t.Fatalf("%d cells of %d are known, %t", len(cells), len(records), ok)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	links, err := os.ReadFile(string(linkLogOf(path)))
	if err != nil {
		t.Fatal(err)
	}
	copied := func(data []byte) {
		for name, data := range map[string][]byte{again: data, string(linkLogOf(again)): links} {
			if err := os.WriteFile(name, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	want, err := SealFile(path, testHost, "night-1", WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sealed, _ := os.ReadFile(path)
	copied(append(bytes.Clone(written), "what an append left that failed"...))
	got, err := SealWritten(again, testHost, "night-1", was, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the indexes of %d and %d cells are not the same", len(got.Cells), len(want.Cells))
	}
	if data, _ := os.ReadFile(again); !bytes.Equal(data, sealed) {
		t.Error("the segments are not the same")
	}

	// Any bit that is not as it was written leaves the pages before it, as SealFile does. Few bits
	// may be otherwise and mean the same, such as a distance back within zeros.
	lost := 0
	for at := 5; at < len(written); at += len(written) / 40 {
		spoilt := bytes.Clone(written)
		spoilt[at] ^= 4
		copied(spoilt)
		want, err := SealFile(again, testHost, "night-1", WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		copied(spoilt)
		got, err := SealWritten(again, testHost, "night-1", was, WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if reflect.DeepEqual(got.Cells, cells) || !reflect.DeepEqual(got.Cells, want.Cells) {
			t.Errorf("byte %d spoilt: %d cells, want %d", at, len(got.Cells), len(want.Cells))
		}
		if len(want.Cells) < len(records) {
			lost++
		}
	}
	if lost < 35 {
		t.Errorf("pages were lost by %d spoilt bytes of 40", lost)
	}
}

// A digest that the caller has is the one that Append would have taken.
func TestDigestGiven(t *testing.T) {
	body := testkit.Text(5000, 1)
	plain, given := page("/a.html", "text/html", body, 0), page("/a.html", "text/html", body, 0)
	_, x := seal(t, []*Record{plain}, "night-1")
	given.PayloadDigest = x.Cells[0].Digest
	want, _ := seal(t, []*Record{page("/a.html", "text/html", body, 0)}, "night-1")
	if got, _ := seal(t, []*Record{given}, "night-1"); !bytes.Equal(got, want) {
		t.Error("the segment is another one")
	}
	w, err := Create(filepath.Join(t.TempDir(), "segment"), testHost, "night-1", WriterOptions{MaxBody: 4000})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	given.Body = bytes.NewReader(body)
	cut, err := w.Append(given)
	if sum := sha256.Sum256(body[:4000]); err != nil || cut.Digest != digestString(sum[:]) || cut.Truncated != "length" {
		t.Errorf("a body that is cut has digest %s, truncated %q; %v", cut.Digest, cut.Truncated, err)
	}
}
