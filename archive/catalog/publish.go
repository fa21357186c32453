package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"sheaf/archive/sortedrun"
)

// Publish publishes the entries as one version and one edition. When it returns nil, they are
// published durably, for every reader that pins from then on.
//
// Each batch is published once, however often Publish is called. Publish leaves out batches that
// are published already, with their entries. If no batch is left, it returns the version that
// published the last of the batches. So if Publish fails, for whatever reason, call it again with
// the same batches. Delete no object of these batches until Publish succeeds or returns
// ErrBatchConflict.
func (c *Catalog) Publish(ctx context.Context, p Publication) (v Version, err error) {
	defer wrap(&err, "publish")
	if err := p.check(); err != nil {
		return v, err
	}
	draft := &draft{sorter: c.newSorter(), totals: make(map[string]*batchRow)}
	defer func() { err = errors.Join(err, draft.sorter.Close()) }()
	if err := draft.take(p); err != nil {
		return v, err
	}
	_, err = c.append(ctx, func(head *state) (*logRecord, error) {
		snapshot := &Snapshot{catalog: c, state: head}
		rest, done, err := snapshot.unpublished(ctx, p.Batches)
		if err != nil {
			return nil, err
		}
		if len(rest) == 0 {
			v = done
			return nil, nil
		}
		if p.Token != 0 && p.Token < head.Token {
			return nil, fmt.Errorf("token %d, the log has %d: %w", p.Token, head.Token, ErrFenced)
		}
		for {
			now := c.after(head)
			today := now.In(c.opt.Location).Format(dayForm)
			if v, err = snapshot.next(ctx, p.Day, today, now); err != nil {
				return nil, err
			}
			r, err := c.composeEdition(ctx, head, draft, rest, v, p.Token)
			// The day may have ended while a large run was built. Then callers of Complete may
			// already rely on the day being complete.
			if err != nil || c.after(head).In(c.opt.Location).Format(dayForm) <= today {
				return r, err
			}
		}
	})
	return v, err
}

// next returns the version after s, published at now. Its edition's name begins with day or, if day
// is empty, with the day that Snapshot.day returns for today.
func (s *Snapshot) next(ctx context.Context, day, today string, now time.Time) (v Version, err error) {
	if day == "" {
		if day, err = s.day(ctx, today); err != nil {
			return v, err
		}
	}
	edition, err := s.nextEdition(ctx, day)
	return Version{N: s.state.N + 1, Edition: edition, Published: now}, err
}

// dayForm is the layout of the day in an edition's name.
const dayForm = "20060102"

func (p Publication) check() error {
	if p.Day != "" {
		if d, err := time.Parse(dayForm, p.Day); err != nil || d.Format(dayForm) != p.Day {
			return fmt.Errorf("day %q is not yyyymmdd", p.Day)
		}
	}
	if len(p.Batches) == 0 {
		return errors.New("no batches: a publication is known by its batches")
	}
	seen := make(map[string]bool, len(p.Batches))
	for _, b := range p.Batches {
		if err := checkKeyText("batch ID", b.ID); err != nil {
			return err
		}
		if seen[b.ID] {
			return fmt.Errorf("batch %s is given twice", b.ID)
		}
		seen[b.ID] = true
	}
	return nil
}

// composeEdition stores version v's run, and returns v's record.
func (c *Catalog) composeEdition(ctx context.Context, head *state, d *draft, batches []Batch, v Version, token int64) (*logRecord, error) {
	nextSeq := head.NextSeq
	run, err := c.buildRun(ctx, kindPublish, v.N, func(w *runWriter) error {
		for _, b := range batches {
			total := *d.totals[b.ID]
			total.Version = v
			if err := w.put(tableBatch+b.ID, total); err != nil {
				return err
			}
		}
		edition := Edition{Name: v.Edition, Version: v.N, Published: v.Published}
		var err error
		if nextSeq, err = d.write(ctx, w, batches, v, nextSeq, &edition); err != nil {
			return err
		}
		return w.put(tableEdition+v.Edition, edition)
	})
	if err != nil {
		return nil, err
	}
	return &logRecord{
		Kind: kindPublish, At: v.Published, Edition: v.Edition, Token: max(token, head.Token),
		Batches: batches, Added: run, Runs: addRun(head.Runs, run), NextSeq: nextSeq,
	}, nil
}

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
