package catalog

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"strconv"

	"sheaf/archive/store"
	"sheaf/internal/wire"
)

// rowSum sums up rows whatever their order: equal sums of two sets of runs say
// that merging lost and added nothing.
type rowSum struct {
	rows int64
	sum  uint64
}

func (s *rowSum) add(row []byte) {
	h := fnv.New64a()
	_, _ = h.Write(row) // never fails
	s.rows++
	s.sum += h.Sum64()
}

func (s *rowSum) addAll(o rowSum) {
	s.rows += o.rows
	s.sum += o.sum
}

// checkRun reads a run from its first byte to its last: digest, block index,
// every block, the order of the rows. It gives each row to check, if not nil.
func (f *fsck) checkRun(ref runRef, check func(row []byte) error) (sum rowSum, err error) {
	if err := f.needWhole(ref.Name, ref.Size); err != nil {
		return sum, err
	}
	f.report.Runs++
	r, err := f.lib.open(f.ctx, ref)
	if f.failed(ref.Name, err) {
		return sum, f.ctx.Err()
	}
	object, err := f.lib.store.Open(f.ctx, ref.Name, 0, ref.Size)
	if f.failed(ref.Name, err) {
		return sum, f.ctx.Err()
	}
	defer object.Close()
	digest := sha256.New()
	body := bufio.NewReaderSize(io.TeeReader(object, digest), int(min(1<<20, ref.Size)))
	var last []byte
	tables := make(map[string]int64)
	for i, b := range r.blocks {
		rows, err := f.readBlock(body, b)
		if err != nil {
			f.report.problem(ref.Name, "block %d at %d: %v", i, b.offset, err)
			return sum, f.ctx.Err()
		}
		for row := range bytes.Lines(rows) {
			row = bytes.TrimSuffix(row, []byte("\n"))
			key := rowKey(row)
			if bytes.Compare(key, last) <= 0 {
				f.report.problem(ref.Name, "block %d at %d: row %q after %q", i, b.offset, key, last)
			}
			last = append(last[:0], key...)
			if !bytes.HasPrefix(key, []byte(tableSummary)) { // they are made anew by each merge
				sum.add(row)
			}
			tables[string(key[:min(2, len(key))])]++
			if check != nil {
				if err := check(row); err != nil {
					return sum, err
				}
			}
		}
	}
	if _, err := io.Copy(io.Discard, body); f.failed(ref.Name, err) {
		return sum, f.ctx.Err()
	}
	if got := hex.EncodeToString(digest.Sum(nil)); got != ref.SHA256 {
		f.report.problem(ref.Name, "SHA-256 is %s, the version says %s", got, ref.SHA256)
	}
	if rows := sum.rows + tables[tableSummary]; rows != ref.Rows || tables[tableSummary] != ref.Summaries {
		f.report.problem(ref.Name, "holds %d rows, of them %d summaries, the version says %d, %d", rows, tables[tableSummary], ref.Rows, ref.Summaries)
	}
	if t, x := tables[tableTombstone], tables[tableExpired]; t != ref.Tombstones || x != ref.Expired {
		f.report.problem(ref.Name, "holds %d take-downs and %d expiries, the version says %d and %d", t, x, ref.Tombstones, ref.Expired)
	}
	if ref.Summed {
		f.failed(ref.Name, f.checkSummaries(r))
	}
	return sum, f.ctx.Err()
}

// checkSummaries compares the summaries of a run's hosts with their lines.
func (f *fsck) checkSummaries(r *run) error {
	runs := []*run{r}
	stored, stop := iter.Pull2(summaries(f.ctx, runs, tableSummary, "", ""))
	defer stop()
	for want, err := range summaries(f.ctx, runs, tableHost, "", "") {
		if err != nil {
			return err
		}
		got, err, ok := stored()
		if err != nil {
			return err
		}
		if !ok || got != want {
			return fmt.Errorf("summary of %s says %+v, its lines %+v", got.Host, got, want)
		}
	}
	if got, err, ok := stored(); ok {
		return errors.Join(err, fmt.Errorf("summary of %s, which has no lines", got.Host))
	}
	return nil
}

// readBlock reads the next block and checks it against its entry in the index.
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

// versionCheck compares what a publication's or removal's run holds with its version.
type versionCheck struct {
	*fsck
	entry    *logEntry
	batches  []batchRow
	rows     map[string]int64 // lines of each batch
	editions int
	segments int64
	seqs     int64 // sequence numbers that are used
	expired  *expiries
}

func (v *versionCheck) problem(format string, args ...any) {
	v.report.problem(v.entry.Added.Name, format, args...)
}

// row checks one row of the run.
func (v *versionCheck) row(row []byte) error {
	switch string(row[:min(2, len(row))]) {
	case tableBatch:
		return v.batch(row)
	case tableHost:
		return v.line(row)
	case tableEdition:
		v.edition(row)
	case tableTombstone:
		var t Tombstone
		if err := rowValue(row, &t); err != nil {
			v.problem("%v", err)
		} else if hostOfRow(row) != Key(t.Host) {
			v.problem("row %q takes down %s", rowKey(row), t.Host)
		}
		v.seqs++
	case tableSummary: // see checkSummaries
	case tableExpired:
		if _, err := expiryOfRow(row); err != nil {
			v.problem("%v", err)
		}
		v.seqs++
	default:
		v.problem("row %q is of no known table", rowKey(row))
	}
	return nil
}

func (v *versionCheck) batch(row []byte) error {
	var b batchRow
	if err := rowValue(row, &b); err != nil {
		v.problem("%v", err)
		return nil
	}
	if string(rowKey(row)) != tableBatch+b.ID || b.N != v.entry.N || b.Edition != v.entry.Edition {
		v.problem("row %q says batch %s, version %d, edition %s", rowKey(row), b.ID, b.N, b.Edition)
	}
	v.batches = append(v.batches, b)
	v.report.Batches++
	return v.checkManifest(b.Batch)
}

// checkManifest checks that a batch's manifest is there and, in a deep check, that it is the one that was
// kept. Where the catalog does not have its digest, it must at least be a manifest, and this batch's.
func (f *fsck) checkManifest(b Batch) error {
	key := wire.ManifestKey(wire.BatchID(b.ID))
	if b.Manifest != "" {
		if err := f.needWhole(key, 0); err != nil {
			return err
		}
	}
	if !f.opt.Deep {
		return nil
	}
	data, err := store.ReadAll(f.ctx, f.lib.store, key, 0, -1)
	if errors.Is(err, store.ErrNotExist) {
		return nil // where there should be one, the listing says that it is missing
	}
	if f.failed(key, err) {
		return f.ctx.Err()
	}
	if b.Manifest != "" {
		if got := wire.Digest(data); got != b.Manifest {
			f.report.problem(key, "SHA-256 is %s, the catalog says %s", got, b.Manifest)
		}
		return nil
	}
	m, err := wire.PeekManifest(data)
	if f.failed(key, err) {
		return nil
	}
	if string(m.Batch) != b.ID || m.SHA256 != b.SHA256 {
		f.report.problem(key, "is of batch %s with SHA-256 %s, the catalog says %s with %s", m.Batch, m.SHA256, b.ID, b.SHA256)
	}
	return nil
}

func (v *versionCheck) line(row []byte) error {
	l, err := entryOfRow(row)
	if err != nil {
		v.problem("%v", err)
		return nil
	}
	if l.Edition != v.entry.Edition || l.SURT != Key(l.Host) {
		v.problem("row %q is of host %s and edition %s", rowKey(row), l.Host, l.Edition)
	}
	if want := v.entry.NextSeq - (v.lines() - v.segments); l.Seq != want {
		v.problem("row %q: sequence number %d, want %d", rowKey(row), l.Seq, want)
	}
	v.segments++
	v.seqs++
	v.rows[l.Batch]++
	expired, err := v.expired.hold(v.ctx, row)
	if err != nil {
		return v.ctx.Err() // checkLive says what is wrong with the run
	}
	return v.checkSegment(l, expired)
}

// lines is how many lines the version's batches say they have.
func (v *versionCheck) lines() (n int64) {
	for _, b := range v.batches {
		n += b.Segments
	}
	return n
}

func (v *versionCheck) edition(row []byte) {
	var e Edition
	if err := rowValue(row, &e); err != nil {
		v.problem("%v", err)
		return
	}
	if string(rowKey(row)) != tableEdition+v.entry.Edition || e.Name != v.entry.Edition || e.Version != v.entry.N || e.Segments != v.segments {
		v.problem("row %q says edition %s of version %d with %d segments, want %s of %d with %d",
			rowKey(row), e.Name, e.Version, e.Segments, v.entry.Edition, v.entry.N, v.segments)
	}
	v.editions++
	v.report.Editions++
}

// finish checks that nothing is missing.
func (v *versionCheck) finish() {
	if len(v.batches) != len(v.entry.Batches) {
		v.problem("holds %d batches, the version has %d", len(v.batches), len(v.entry.Batches))
	}
	for i, b := range v.batches {
		if i < len(v.entry.Batches) && b.Batch != v.entry.Batches[i] {
			v.problem("batch %s of digest %s, the version says %s of %s", b.ID, b.SHA256, v.entry.Batches[i].ID, v.entry.Batches[i].SHA256)
		}
		if v.rows[b.ID] != b.Segments {
			v.problem("batch %s has %s segments, want %d", b.ID, strconv.FormatInt(v.rows[b.ID], 10), b.Segments)
		}
	}
	if want := map[kind]int{kindPublish: 1}[v.entry.Kind]; v.editions != want {
		v.problem("holds %d editions, want %d", v.editions, want)
	}
}
