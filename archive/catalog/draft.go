package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"sheaf/archive/sortedrun"
)

// draft holds a publication's entries, sorted, before their version is known. A row is "<host key>
// <entry>", a tab, and the entry's part of the host's summary. The entry's JSON has no tab.
type draft struct {
	sorter *sortedrun.Sorter
	totals map[string]*batchRow
}

// take reads and checks the publication's entries.
func (d *draft) take(p Publication) error {
	for _, b := range p.Batches {
		d.totals[b.ID] = &batchRow{Batch: b}
	}
	if p.Entries == nil {
		return nil
	}
	var row []byte
	for l, err := range p.Entries {
		if err != nil {
			return err
		}
		total := d.totals[l.Batch]
		if total == nil {
			return fmt.Errorf("entry of %s: its batch %q is not among those to publish", l.Host, l.Batch)
		}
		if l.BatchSHA256 == "" {
			l.BatchSHA256 = total.SHA256
		}
		if err := l.check(total.Batch); err != nil {
			return fmt.Errorf("entry of %s in batch %s: %w", l.Host, l.Batch, err)
		}
		l.SURT, l.Seq = Key(l.Host), 0
		if err := checkKeyText("host", l.SURT); err != nil {
			return err
		}
		if row, err = appendRow(row[:0], l.SURT, draftEntry{SegmentEntry: l}); err != nil {
			return err
		}
		row = append(appendSummary(append(row[:len(row)-1], '\t'), l), '\n')
		if err := d.sorter.Add(row); err != nil {
			return err
		}
		total.Segments++
		total.Records += l.Records
		total.Bytes += l.Length
	}
	return nil
}

func (l SegmentEntry) check(b Batch) error {
	switch {
	case l.Host == "":
		return errors.New("no host")
	case l.Object == "":
		return errors.New("no object")
	case l.Offset < 0 || l.Length <= 0:
		return fmt.Errorf("%d bytes at %d are no range of an object", l.Length, l.Offset)
	case l.IndexOffset < 0 || l.IndexLength < 0 || l.IndexOffset > l.Length || l.IndexLength > l.Length-l.IndexOffset:
		return fmt.Errorf("index of %d bytes at %d is not within the segment's %d", l.IndexLength, l.IndexOffset, l.Length)
	case l.BatchSHA256 != b.SHA256:
		return fmt.Errorf("batch digest %s, the batch has %s", l.BatchSHA256, b.SHA256)
	}
	return nil
}

// draftEntry is an entry without the fields that depend on the version. Its empty fields hide
// SegmentEntry's fields of the same names from the encoder.
type draftEntry struct {
	SegmentEntry
	Edition   string `json:"edition,omitempty"`
	Published string `json:"published,omitempty"`
}

// write adds the batches' entries to a run, in the order of their hosts and numbered from seq, then
// the hosts' summaries. It adds the edition's counts to sum, and returns the next free number.
func (d *draft) write(ctx context.Context, w *runWriter, batches []Batch, v Version, seq int64, sum *Edition) (int64, error) {
	wanted := make(map[string]bool, len(batches))
	for _, b := range batches {
		wanted[b.ID] = true
		total := d.totals[b.ID]
		sum.Segments += total.Segments
		sum.Records += total.Records
		sum.Bytes += total.Bytes
	}
	next, err := d.writeEntries(ctx, w, wanted, v, seq)
	if err != nil {
		return next, err
	}
	sum.Hosts, err = d.writeSummaries(ctx, w, wanted, v, seq)
	return next, err
}

// writeEntries adds the entries. It puts the version's fields before the encoded fields. So an
// entry is encoded once, and decoded only if some batches are left out.
func (d *draft) writeEntries(ctx context.Context, w *runWriter, wanted map[string]bool, v Version, seq int64) (int64, error) {
	published, err := json.Marshal(v.Published)
	if err != nil {
		return seq, err
	}
	var out []byte
	for row, err := range d.rows(ctx, wanted) {
		if err != nil {
			return seq, err
		}
		out = fmt.Appendf(out[:0], "%s%s %020d {\"edition\":%q,\"seq\":%d,\"published\":%s,", tableHost, row.key, seq, v.Edition, seq, published)
		if err := w.add(append(out, row.entry[1:]...)); err != nil {
			return seq, err
		}
		seq++
	}
	return seq, nil
}

// writeSummaries adds a summary for each host, and returns their number.
func (d *draft) writeSummaries(ctx context.Context, w *runWriter, wanted map[string]bool, v Version, seq int64) (hosts int64, err error) {
	var s summary
	var key string
	put := func() error {
		if s.Segments == 0 {
			return nil
		}
		hosts++
		return w.put(tableSummary+key+" "+seqKey(s.seq), s)
	}
	for row, err := range d.rows(ctx, wanted) {
		if err != nil {
			return hosts, err
		}
		next, err := parseSummary(string(row.summary))
		if err != nil {
			return hosts, err
		}
		next.Edition, next.Published, next.seq = v.Edition, nanoseconds(v.Published), seq
		seq++
		if string(row.key) == key {
			s.add(next)
			continue
		}
		if err := put(); err != nil {
			return hosts, err
		}
		key, s = string(row.key), next
	}
	return hosts, put()
}

// draftRow is one row of a draft. It is valid until the next row is read.
type draftRow struct{ key, entry, summary []byte }

// rows walks the entries of the wanted batches, in the order of their hosts' keys.
func (d *draft) rows(ctx context.Context, wanted map[string]bool) iter.Seq2[draftRow, error] {
	return func(yield func(draftRow, error) bool) {
		rows, err := d.sorter.Rows(ctx)
		if err != nil {
			yield(draftRow{}, err)
			return
		}
		for ; rows.Row() != nil; err = rows.Next(ctx) {
			if err != nil {
				yield(draftRow{}, err)
				return
			}
			tab := bytes.LastIndexByte(rows.Row(), '\t')
			at := draftRow{key: rowKey(rows.Row()), summary: rows.Row()[tab+1:]}
			at.entry = rows.Row()[len(at.key)+1 : tab]
			if len(wanted) < len(d.totals) {
				var of struct{ Batch string }
				if err := json.Unmarshal(at.entry, &of); err != nil {
					yield(draftRow{}, err)
					return
				}
				if !wanted[of.Batch] {
					continue
				}
			}
			if !yield(at, nil) {
				return
			}
		}
		if err != nil {
			yield(draftRow{}, err)
		}
	}
}
