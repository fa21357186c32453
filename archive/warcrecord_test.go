package archive

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// The header of an imported record comes back: its ID, the fields that Sheaf does not write, and
// those that it writes with another value.
func TestOriginalHeader(t *testing.T) {
	t.Parallel()
	original := []Field{
		{"WARC-Type", "resource"}, {"warc-record-id", "<urn:uuid:11111111-2222-3333-4444-555555555555>"}, {"WARC-Date", "2026-11-20T18:00:00Z"},
		{"WARC-Payload-Digest", "sha1:" + strings.Repeat("B", 32)}, {"WARC-Concurrent-To", "<urn:uuid:a>"}, {"WARC-Concurrent-To", "<urn:uuid:b>"},
		{"WARC-Page-ID", "7"}, {"WARC-JSON-Metadata", `{"ipType":"表"}`}, {"content-length", "12"},
	}
	records, _ := testRecords()
	want := []string{
		"WARC-Record-ID: <urn:uuid:11111111-2222-3333-4444-555555555555>", "X-Original-WARC-Type: resource",
		"X-Original-WARC-Payload-Digest: sha1:" + strings.Repeat("B", 32), "WARC-Concurrent-To: <urn:uuid:a>", "WARC-Concurrent-To: <urn:uuid:b>",
		"WARC-Page-ID: 7", `WARC-JSON-Metadata: {"ipType":"表"}`, "X-Original-content-length: 12",
	}
	for _, r := range records {
		r.Original = original
	}
	data, x := seal(t, records, "import-1")
	if _, err := VerifySegment(bytes.NewReader(data), VerifyOptions{Host: testHost}); err != nil {
		t.Fatal(err)
	}
	cells := unsealed(data, x)
	scanned, err := ReadIndex(context.Background(), sourceOf(cells), int64(len(cells)))
	if err != nil || !reflect.DeepEqual(scanned.Cells, x.Cells) {
		t.Errorf("scanned, the cells differ: %v", err)
	}
	n := 0
	for head := range strings.SplitSeq(gunzip(t, viewBytes(t, WARC, partOf(data, x))), "WARC/1.1\r\n") {
		if !strings.Contains(head, "WARC-Target-URI") {
			continue
		}
		n++
		head, _, _ = strings.Cut(head, crlf2)
		for _, line := range want {
			if !strings.Contains("\r\n"+head+"\r\n", "\r\n"+line+"\r\n") {
				t.Fatalf("no line %q in\n%s", line, head)
			}
		}
		if strings.Contains(head, "\r\nWARC-Date: 2026-11-20T18:00:00Z") == strings.Contains(head, "X-Original-WARC-Date") {
			t.Errorf("the date is there twice or not:\n%s", head)
		}
	}
	if n != len(records) {
		t.Errorf("%d records, want %d", n, len(records))
	}
	for _, bad := range [][]Field{
		{{"", "x"}}, {{"A b", "x"}}, {{"A:", "x"}}, {{"A", "x\r\nB: y"}}, {{"A", ""}}, {{"A", " x"}}, {{"WARC-Record-ID", "urn:x"}}, {{"A", strings.Repeat("x", MaxOriginal)}},
	} {
		w, err := Create(t.TempDir()+"/segment", testHost, "s", WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r := page("/", "text/html", nil, 0)
		r.Original = bad
		if _, err := w.Append(r); !errors.Is(err, ErrRefused) {
			t.Errorf("%q was taken: %v", bad, err)
		}
	}
}

// An imported record keeps its ID when Sheaf would write all its other fields alike.
func TestOriginalIDAlone(t *testing.T) {
	t.Parallel()
	const id = "<urn:uuid:11111111-2222-3333-4444-555555555555>"
	records, _ := testRecords()
	for _, r := range records {
		r.Original = []Field{{"WARC-Record-ID", id}, {"WARC-Target-URI", r.URL}}
	}
	data, x := seal(t, records, "import-1")
	if _, err := VerifySegment(bytes.NewReader(data), VerifyOptions{Host: testHost}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(gunzip(t, viewBytes(t, WARC, partOf(data, x))), "\r\nWARC-Record-ID: "+id+"\r\n"); n != len(records) {
		t.Errorf("%d of %d records have the ID", n, len(records))
	}
}
