package catalog

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
)

// forge publishes one line with the rows that are given beside it, as only a program with a fault
// could.
func forge(t *testing.T, c *Catalog, l SegmentEntry, fill func(w *runWriter) error) {
	t.Helper()
	b := batchRow{Batch: Batch{ID: l.Batch, SHA256: l.BatchSHA256}, Segments: 1, Records: l.Records, Bytes: l.Length}
	_, err := c.append(t.Context(), func(head *state) (*logRecord, error) {
		v := Version{N: head.N + 1, Edition: l.Edition, Published: l.Published}
		b.Version = v
		run, err := c.buildRun(t.Context(), kindPublish, v.N, func(w *runWriter) error {
			if err := w.put(tableBatch+b.ID, b); err != nil {
				return err
			}
			if err := w.put(tableHost+l.SURT+" "+seqKey(l.Seq), l); err != nil {
				return err
			}
			return fill(w)
		})
		return &logRecord{
			Kind: kindPublish, At: v.Published, Edition: v.Edition, Batches: []Batch{b.Batch},
			Added: run, Runs: addRun(head.Runs, run), NextSeq: head.NextSeq + 1,
		}, err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Fsck finds rows that are whole and wrong: summaries that are not their lines', and
// expiries of lines that there are not.
func TestFsckOfForgedRows(t *testing.T) {
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	l := SegmentEntry{
		Host: "a.jp", SURT: Key("a.jp"), Edition: "20261121", Object: "segments/a", Length: 1, Records: 7, Origin: Origin{Batch: "b", BatchSHA256: "d"},
		Seq: 1, First: now, Last: now, Published: now, SHA256: "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
	}
	right, fewer, other := summaryOf(l), summaryOf(l), summaryOf(l)
	fewer.Records--
	other.Host = "b.jp"
	for name, c := range map[string]struct {
		summaries []summary
		expiry    *Expiry
		want      string // in a problem; empty: none
	}{
		"right":           {[]summary{right}, nil, ""},
		"wrong":           {[]summary{fewer}, nil, "summary of a.jp"},
		"missing":         {nil, nil, "summary of"},
		"of no host":      {[]summary{right, other}, nil, "which has no entries"},
		"expired":         {[]summary{right}, &Expiry{Host: "a.jp", Edition: l.Edition, Entry: 1}, ""},
		"expired nothing": {[]summary{right}, &Expiry{Host: "a.jp", Edition: l.Edition, Entry: 2}, "there is no such entry"},
	} {
		t.Run(name, func(t *testing.T) {
			st, err := store.OpenFS(filepath.Join(t.TempDir(), "store"))
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			if err := st.Put(t.Context(), l.Object, strings.NewReader("a"), 1); err != nil {
				t.Fatal(err)
			}
			cat, err := Open(context.Background(), st, Options{})
			if err != nil {
				t.Fatal(err)
			}
			forge(t, cat, l, func(w *runWriter) error {
				for _, s := range c.summaries {
					if err := w.put(s.key(), s); err != nil {
						return err
					}
				}
				return w.put(tableEdition+l.Edition, Edition{Name: l.Edition, Version: 1, Published: now, Hosts: 1, Segments: 1, Records: 7, Bytes: 1})
			})
			if c.expiry != nil {
				expired := sortedrun.NewSorter("", 1<<20, bytes.Compare)
				row, err := appendRow(nil, c.expiry.key(), *c.expiry)
				if err == nil {
					err = expired.Add(row)
				}
				if err == nil {
					err = cat.expire(t.Context(), expired)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			report, err := Fsck(t.Context(), st, FsckOptions{Deep: true})
			if err != nil {
				t.Fatal(err)
			}
			found := ""
			for _, p := range report.Problems {
				found += p.Where + ": " + p.Detail + "\n"
			}
			if !strings.Contains(found, c.want) || c.want == "" && found != "" {
				t.Errorf("problems: %s; want %q", found, c.want)
			}
		})
	}
}
