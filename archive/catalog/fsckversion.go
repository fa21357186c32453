package catalog

import "context"

// versionCheck compares the rows of the run that a version added with the version's record.
type versionCheck struct {
	fsck    *fsck
	entry   *logEntry
	expired *expiries

	batches  []batchRow
	perBatch map[string]int64 // entries, by batch
	editions int
	count    int64 // entries
}

func (v *versionCheck) problem(format string, args ...any) {
	v.fsck.report.problem(v.entry.Added.Name, format, args...)
	v.fsck.report.suspect(v.entry.N)
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
	if string(rowKey(row)) != tableBatch+b.ID || b.N != v.entry.N || b.Edition != v.entry.Edition {
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
	if e.Edition != v.entry.Edition || e.SURT != Key(e.Host) {
		v.problem("row %q is of host %s and edition %s", rowKey(row), e.Host, e.Edition)
	}
	all := int64(0) // entries of the version, as its batches say
	for _, b := range v.batches {
		all += b.Segments
	}
	if want := v.entry.NextSeq - (all - v.count); e.Seq != want {
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
	if string(rowKey(row)) != tableEdition+v.entry.Edition || e.Name != v.entry.Edition || e.Version != v.entry.N || e.Segments != v.count {
		v.problem("row %q says edition %s of version %d with %d segments, want %s of %d with %d",
			rowKey(row), e.Name, e.Version, e.Segments, v.entry.Edition, v.entry.N, v.count)
	}
	v.editions++
	v.fsck.report.Editions++
}

// finish checks the numbers of batches, segments and editions, after the last row.
func (v *versionCheck) finish() {
	if len(v.batches) != len(v.entry.Batches) {
		v.problem("holds %d batches, the version has %d", len(v.batches), len(v.entry.Batches))
	}
	for i, b := range v.batches {
		if i < len(v.entry.Batches) && b.Batch != v.entry.Batches[i] {
			v.problem("batch %s of digest %s, the version says %s of %s", b.ID, b.SHA256, v.entry.Batches[i].ID, v.entry.Batches[i].SHA256)
		}
		if n := v.perBatch[b.ID]; n != b.Segments {
			v.problem("batch %s has %d segments, want %d", b.ID, n, b.Segments)
		}
	}
	want := 0
	if v.entry.Kind == kindPublish {
		want = 1
	}
	if v.editions != want {
		v.problem("holds %d editions, want %d", v.editions, want)
	}
}
