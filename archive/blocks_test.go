package archive

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"

	"sheaf/internal/testkit"
)

// deflated gives each page of records its body as another machine has deflated it.
func deflated(t *testing.T, records []*Record) {
	t.Helper()
	d, err := NewDeflater(6)
	testkit.Must(t, err)
	for _, r := range records {
		if r.Kind != Page {
			continue
		}
		body, err := io.ReadAll(r.Body)
		testkit.Must(t, err)
		var blocks bytes.Buffer
		testkit.Must(t, d.Deflate(&blocks, r.HTTP, bytes.NewReader(body)))
		r.Body, r.Deflated = bytes.NewReader(body), &Deflated{bytes.NewReader(blocks.Bytes()), int64(blocks.Len()), int64(len(body))}
	}
}

// A page that another machine has deflated is stored as the same bytes as one that the writer
// deflates.
func TestDeflatedElsewhere(t *testing.T) {
	t.Parallel()
	here, _ := testRecords()
	want, _ := seal(t, here, "s1")
	there, _ := testRecords()
	deflated(t, there)
	got, _ := seal(t, there, "s1")
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %d of pages that were deflated here, or not the same", len(got), len(want))
	}
}

// A page of which not all is stored is deflated by the writer, whatever comes with it.
func TestDeflatedAndCut(t *testing.T) {
	t.Parallel()
	write := func(elsewhere bool) Cell {
		records := []*Record{page("/long.txt", "text/plain", testkit.Text(50_000, 1), 1)}
		if elsewhere {
			deflated(t, records)
		}
		w, err := Create(filepath.Join(t.TempDir(), "s"), testHost, "s1", WriterOptions{MaxBody: 10_000})
		testkit.Must(t, err)
		defer w.Close()
		cell, err := w.Append(records[0])
		testkit.Must(t, err)
		return cell
	}
	if here, there := write(false), write(true); here != there || here.BodyLen != 10_000 || here.Truncated != "length" {
		t.Errorf("%+v\n%+v", here, there)
	}
}
