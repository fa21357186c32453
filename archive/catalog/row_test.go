package catalog

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"sheaf/archive/store"
)

// entryRows returns rows of entries as a publication writes them.
func entryRows(t testing.TB) (rows [][]byte) {
	st, err := store.OpenFS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	now := time.Date(2026, 11, 28, 1, 2, 3, 456000000, time.UTC)
	c, err := Open(t.Context(), st, Options{TempDir: t.TempDir(), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	few := SegmentEntry{
		Host: "a.jp", Object: "segments/a", Length: 2, First: now, Last: now.Add(time.Second), SHA256: "ab",
		Origin: Origin{Batch: "b", BatchSHA256: "45", Robot: "r"},
	}
	some, all := few, few
	some.Views = map[string]View{"tar": {Size: 8, SHA256: "cd", ETag: `"tar1-ef"`}, "warc": {Size: 9, SHA256: "01", ETag: `"warc1-23"`, Offset: 10}}
	all.Views, all.Preferences, all.Collection, all.Records, all.Revisits, all.Files, all.Offset = some.Views, "0800", "old", 5, 6, 7, 1
	if _, err := c.Publish(t.Context(), Publication{Batches: []Batch{{ID: "b", SHA256: "45"}}, Entries: Entries(few, some, all)}); err != nil {
		t.Fatal(err)
	}
	for row, err := range scan(t.Context(), c.current().runs, tableHost) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

// What is written must be read the quick way: otherwise nothing is gained, and nobody notices.
func TestScanEntryReadsWhatIsWritten(t *testing.T) {
	rows := entryRows(t)
	if len(rows) != 3 {
		t.Errorf("%d rows, want 3", len(rows))
	}
	for _, row := range rows {
		var want SegmentEntry
		if err := rowValue(row, &want); err != nil {
			t.Fatal(err)
		}
		if got, ok := scanEntry(string(row[len(rowKey(row))+1:])); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nis read as %+v, %v", row, got, ok)
		}
	}
}

func TestScanSummaryReadsWhatIsWritten(t *testing.T) {
	at := time.Date(2026, 11, 28, 1, 2, 3, 456000000, time.UTC)
	for _, want := range []summary{
		summaryOf(SegmentEntry{Host: "a.jp:8080", Edition: "20261128-2", Published: at, First: at, Last: at, Records: 5, Length: 7}),
		{Host: "b.jp"},
	} {
		row, err := appendRow(nil, want.key(), want)
		if err != nil {
			t.Fatal(err)
		}
		row = row[:len(row)-1]
		if got, ok := scanSummary(string(row[len(rowKey(row)):])); !ok || got.Host != want.Host || got.Bytes != want.Bytes || got.Published != want.Published {
			t.Errorf("%s\nis read as %+v, %v", row, got, ok)
		}
		if got, err := summaryOfRow(row); err != nil || got != want {
			t.Errorf("%s\nis read as %+v, %v", row, got, err)
		}
	}
}

// Whatever is read the quick way must be what encoding/json reads.
func FuzzScanEntry(f *testing.F) {
	for _, row := range entryRows(f) {
		f.Add(string(row[len(rowKey(row))+1:]))
	}
	const before, between, after = `{"edition":"","seq":0,"published":"`, `","host":"","surt":"","object":"","offset":0,"length":0,"index_offset":0,"index_length":0,"first":"2026-11-28T01:02:03Z","last":"2026-11-28T01:02:03Z","records":0,"revisits":0,"files":0,"sha256":""`, `,"batch":"","batch_sha256":"","robot":""}`
	f.Add(before + "2026-11-28T01:02:03+09:00" + between + after)
	f.Add(before + "2026-11-28T1:02:03Z" + between + `,"views":{}` + after)
	f.Add(before + "2026-11-28T24:02:03Z" + between + `,"views":}` + after)
	f.Add(before + "2026-11-28T01:02:03Z" + between + `,"views":{"a":{"size":1,"sha256":"","etag":""},"a":{"size":2,"sha256":"","etag":""}}` + after)
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := scanEntry(text)
		if !ok {
			return
		}
		var want SegmentEntry
		if err := json.Unmarshal([]byte(text), &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, want\n%+v (%v)", text, got, want, err)
		}
	})
}
