package catalog

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"

	"sheaf/archive/sortedrun"
)

// runCheck compares a run with the record of a version that has it.
type runCheck struct {
	fsck    *fsck
	version *logEntry
	ref     runRef
}

// problem reports a problem of the run. If the run differs from its version's record, that record
// may be damaged instead of the run.
func (c *runCheck) problem(format string, args ...any) {
	c.fsck.report.problem(c.ref.Name, format, args...)
	c.fsck.report.suspect(c.version.N)
}

// failed reports err as a problem of the run, unless err is nil. It returns whether err is an
// error.
func (c *runCheck) failed(err error) bool {
	if err != nil {
		c.problem("%v", err)
	}
	return err != nil
}

// read reads the whole run, and checks the digest, the block index, every block and the order of
// the rows. It calls each for every row, unless each is nil. The sum does not include summaries,
// because each merge makes them anew.
func (c *runCheck) read(ctx context.Context, each func(row []byte) error) (sum sortedrun.Sum, err error) {
	if err := c.fsck.needWhole(c.ref.Name, c.ref.Size); err != nil {
		return sum, err
	}
	c.fsck.report.Runs++
	r, err := c.fsck.lib.open(ctx, c.ref)
	if c.failed(err) {
		return sum, ctx.Err()
	}
	object, err := c.fsck.lib.store.Open(ctx, c.ref.Name, 0, c.ref.Size)
	if c.failed(err) {
		return sum, ctx.Err()
	}
	defer object.Close()
	digest := sha256.New()
	body := bufio.NewReaderSize(io.TeeReader(object, digest), int(min(1<<20, c.ref.Size)))
	var last []byte
	tables := make(map[string]int64)
	for i, b := range r.blocks {
		rows, err := c.fsck.readBlock(body, b)
		if err != nil {
			c.problem("block %d at %d: %v", i, b.offset, err)
			return sum, ctx.Err()
		}
		for row := range bytes.Lines(rows) {
			row = bytes.TrimSuffix(row, []byte("\n"))
			key := rowKey(row)
			if bytes.Compare(key, last) <= 0 {
				c.problem("block %d at %d: row %q after %q", i, b.offset, key, last)
			}
			last = append(last[:0], key...)
			table := string(key[:min(2, len(key))])
			if tables[table]++; table != tableSummary {
				sum.Add(row)
			}
			if each != nil {
				if err := each(row); err != nil {
					return sum, err
				}
			}
		}
	}
	if _, err := io.Copy(io.Discard, body); c.failed(err) {
		return sum, ctx.Err()
	}
	if got := hex.EncodeToString(digest.Sum(nil)); got != c.ref.SHA256 {
		c.problem("SHA-256 is %s, the version says %s", got, c.ref.SHA256)
	}
	c.compareCounts(sum.Rows+tables[tableSummary], tables)
	c.failed(checkSummaries(ctx, r))
	return sum, ctx.Err()
}

// compareCounts compares a run's numbers of rows, summaries, tombstones and expiries with the
// numbers in the version's record.
func (c *runCheck) compareCounts(rows int64, tables map[string]int64) {
	if s := tables[tableSummary]; rows != c.ref.Rows || s != c.ref.Summaries {
		c.problem("holds %d rows, of them %d summaries, the version says %d, %d", rows, s, c.ref.Rows, c.ref.Summaries)
	}
	if t, x := tables[tableTombstone], tables[tableExpired]; t != c.ref.Tombstones || x != c.ref.Expired {
		c.problem("holds %d take-downs and %d expiries, the version says %d and %d", t, x, c.ref.Tombstones, c.ref.Expired)
	}
}

// readBlock reads the next block and compares it with its line of the block index.
func (f *fsck) readBlock(body io.Reader, b block) ([]byte, error) {
	frame := make([]byte, b.length)
	if _, err := io.ReadFull(body, frame); err != nil {
		return nil, err
	}
	rows, err := f.lib.codec.inflate(frame, b.crc)
	switch {
	case err != nil:
		return nil, err
	case !bytes.HasSuffix(rows, []byte("\n")):
		return nil, errors.New("does not end with a row")
	case bytes.Count(rows, []byte("\n")) != int(b.rows):
		return nil, fmt.Errorf("%d rows, the index says %d", bytes.Count(rows, []byte("\n")), b.rows)
	}
	first, _, _ := bytes.Cut(rows, []byte("\n"))
	if key := string(rowKey(first)); key != b.first {
		return nil, fmt.Errorf("begins with %q, the index says %q", key, b.first)
	}
	return rows, nil
}

// checkSummaries compares the summaries of a run's hosts with the hosts' entries.
func checkSummaries(ctx context.Context, r *run) error {
	runs := []*run{r}
	stored, stop := iter.Pull2(summaries(ctx, runs, tableSummary, "", ""))
	defer stop()
	for want, err := range summaries(ctx, runs, tableHost, "", "") {
		if err != nil {
			return err
		}
		got, err, ok := stored()
		if err != nil {
			return err
		}
		if !ok || got != want {
			return fmt.Errorf("summary of %s says %+v, its entries %+v", got.Host, got, want)
		}
	}
	if got, err, ok := stored(); ok {
		return errors.Join(err, fmt.Errorf("summary of %s, which has no entries", got.Host))
	}
	return nil
}

// versionCheck compares the rows of the run that a version added with the version's record.
type versionCheck struct {
	runCheck
	expired *expiries

	batches  []batchRow
	perBatch map[string]int64 // entries, by batch
	editions int
	count    int64 // entries
}

// row checks one row of the run, as its table requires.
func (v *versionCheck) row(ctx context.Context, row []byte) error {
	switch string(row[:min(2, len(row))]) {
	case tableBatch:
		return v.batch(ctx, row)
	case tableHost:
		return v.segment(ctx, row)
	case tableEdition:
		v.edition(row)
	case tableTombstone:
		var t Tombstone
		if err := rowValue(row, &t); err != nil {
			v.problem("%v", err)
		} else if hostOfRow(row) != Key(t.Host) {
			v.problem("row %q takes down %s", rowKey(row), t.Host)
		}
	case tableRestriction:
		if _, err := restrictionOfRow(row); err != nil {
			v.problem("%v", err)
		}
	case tableSummary: // see checkSummaries
	case tableExpired:
		if _, err := expiryOfRow(row); err != nil {
			v.problem("%v", err)
		}
	default:
		v.problem("row %q is of no known table", rowKey(row))
	}
	return nil
}

func (v *versionCheck) batch(ctx context.Context, row []byte) error {
	var b batchRow
	if err := rowValue(row, &b); err != nil {
		v.problem("%v", err)
		return nil
	}
	if string(rowKey(row)) != tableBatch+b.ID || b.N != v.version.N || b.Edition != v.version.Edition {
		v.problem("row %q says batch %s, version %d, edition %s", rowKey(row), b.ID, b.N, b.Edition)
	}
	v.batches = append(v.batches, b)
	v.fsck.report.Batches++
	return v.fsck.checkManifest(ctx, b.Batch)
}

func (v *versionCheck) segment(ctx context.Context, row []byte) error {
	e, err := entryOfRow(row)
	if err != nil {
		v.problem("%v", err)
		return nil
	}
	if e.Edition != v.version.Edition || e.SURT != Key(e.Host) {
		v.problem("row %q is of host %s and edition %s", rowKey(row), e.Host, e.Edition)
	}
	all := int64(0) // entries of the version, as its batches say
	for _, b := range v.batches {
		all += b.Segments
	}
	if want := v.version.NextSeq - (all - v.count); e.Seq != want {
		v.problem("row %q: sequence number %d, want %d", rowKey(row), e.Seq, want)
	}
	v.count++
	v.perBatch[e.Batch]++
	expired, err := v.expired.hold(ctx, row)
	if err != nil {
		return ctx.Err() // the check of the live runs reports what is wrong with the run
	}
	return v.fsck.checkSegment(ctx, e, expired)
}

func (v *versionCheck) edition(row []byte) {
	var e Edition
	if err := rowValue(row, &e); err != nil {
		v.problem("%v", err)
		return
	}
	if string(rowKey(row)) != tableEdition+v.version.Edition || e.Name != v.version.Edition || e.Version != v.version.N || e.Segments != v.count {
		v.problem("row %q says edition %s of version %d with %d segments, want %s of %d with %d",
			rowKey(row), e.Name, e.Version, e.Segments, v.version.Edition, v.version.N, v.count)
	}
	v.editions++
	v.fsck.report.Editions++
}

// finish checks the numbers of batches, segments and editions, after the last row.
func (v *versionCheck) finish() {
	if len(v.batches) != len(v.version.Batches) {
		v.problem("holds %d batches, the version has %d", len(v.batches), len(v.version.Batches))
	}
	for i, b := range v.batches {
		if i < len(v.version.Batches) && b.Batch != v.version.Batches[i] {
			v.problem("batch %s of digest %s, the version says %s of %s", b.ID, b.SHA256, v.version.Batches[i].ID, v.version.Batches[i].SHA256)
		}
		if n := v.perBatch[b.ID]; n != b.Segments {
			v.problem("batch %s has %d segments, want %d", b.ID, n, b.Segments)
		}
	}
	want := 0
	if v.version.Kind == kindPublish {
		want = 1
	}
	if v.editions != want {
		v.problem("holds %d editions, want %d", v.editions, want)
	}
}
