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

// runProblem reports a problem of a run. If the run differs from its version's record, that record
// may be damaged instead of the run.
func (f *fsck) runProblem(version *logEntry, ref runRef, format string, args ...any) {
	f.report.problem(ref.Name, format, args...)
	f.report.suspect(version.N)
}

// runFailed reports err as a problem of a run, unless err is nil. It returns whether err is an
// error.
func (f *fsck) runFailed(version *logEntry, ref runRef, err error) bool {
	if err != nil {
		f.runProblem(version, ref, "%v", err)
	}
	return err != nil
}

// checkRun reads a whole run of a version, and checks the digest, the block index, every block and
// the order of the rows. It calls each for every row, unless each is nil. The sum does not include
// summaries, because each merge makes them anew.
func (f *fsck) checkRun(ctx context.Context, version *logEntry, ref runRef, each func(row []byte) error) (sum sortedrun.Sum, err error) {
	if err := f.needWhole(ref.Name, ref.Size); err != nil {
		return sum, err
	}
	f.report.Runs++
	r, err := f.lib.open(ctx, ref)
	if f.runFailed(version, ref, err) {
		return sum, ctx.Err()
	}
	object, err := f.lib.store.Open(ctx, ref.Name, 0, ref.Size)
	if f.runFailed(version, ref, err) {
		return sum, ctx.Err()
	}
	defer object.Close()
	digest := sha256.New()
	body := bufio.NewReaderSize(io.TeeReader(object, digest), int(min(1<<20, ref.Size)))
	var last []byte
	tables := make(map[string]int64)
	for i, b := range r.blocks {
		rows, err := f.readBlock(body, b)
		if err != nil {
			f.runProblem(version, ref, "block %d at %d: %v", i, b.offset, err)
			return sum, ctx.Err()
		}
		for row := range bytes.Lines(rows) {
			row = bytes.TrimSuffix(row, []byte("\n"))
			key := rowKey(row)
			if bytes.Compare(key, last) <= 0 {
				f.runProblem(version, ref, "block %d at %d: row %q after %q", i, b.offset, key, last)
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
	if _, err := io.Copy(io.Discard, body); f.runFailed(version, ref, err) {
		return sum, ctx.Err()
	}
	if got := hex.EncodeToString(digest.Sum(nil)); got != ref.SHA256 {
		f.runProblem(version, ref, "SHA-256 is %s, the version says %s", got, ref.SHA256)
	}
	f.compareCounts(version, ref, sum.Rows+tables[tableSummary], tables)
	f.runFailed(version, ref, checkSummaries(ctx, r))
	return sum, ctx.Err()
}

// compareCounts compares a run's numbers of rows, summaries, tombstones and expiries with the
// numbers in the version's record.
func (f *fsck) compareCounts(version *logEntry, ref runRef, rows int64, tables map[string]int64) {
	if s := tables[tableSummary]; rows != ref.Rows || s != ref.Summaries {
		f.runProblem(version, ref, "holds %d rows, of them %d summaries, the version says %d, %d", rows, s, ref.Rows, ref.Summaries)
	}
	if t, x := tables[tableTombstone], tables[tableExpired]; t != ref.Tombstones || x != ref.Expired {
		f.runProblem(version, ref, "holds %d take-downs and %d expiries, the version says %d and %d", t, x, ref.Tombstones, ref.Expired)
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
