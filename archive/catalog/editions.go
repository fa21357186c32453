package catalog

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Editions returns all editions in the order of publication.
func (s *Snapshot) Editions(ctx context.Context) ([]Edition, error) {
	editions, err := s.editionsNamed(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("catalog: editions: %w", err)
	}
	return editions, nil
}

// editionsNamed returns the editions whose names begin with prefix, in the order of publication.
func (s *Snapshot) editionsNamed(ctx context.Context, prefix string) (editions []Edition, err error) {
	for e, err := range valuesOf[Edition](s.scan(ctx, tableEdition+prefix, "")) {
		if err != nil {
			return nil, err
		}
		editions = append(editions, e)
	}
	slices.SortFunc(editions, func(a, b Edition) int { return cmp.Compare(a.Version, b.Version) })
	return editions, nil
}

// EditionInfo returns one edition, or ErrNotExist.
func (s *Snapshot) EditionInfo(ctx context.Context, name string) (e Edition, err error) {
	ok, err := s.lookUp(ctx, tableEdition+name, &e)
	if err == nil && !ok {
		err = ErrNotExist
	}
	if err != nil {
		return e, fmt.Errorf("catalog: edition %q: %w", name, err)
	}
	return e, nil
}

// Edition walks the entries that an edition published, without taken-down, hidden and expired
// entries. They are in the order of their hosts' keys, and so of their sequence numbers.
func (s *Snapshot) Edition(ctx context.Context, name string) iter.Seq2[SegmentEntry, error] {
	return s.editionFrom(ctx, name, "", "")
}

// EditionAfter is like Edition, but begins behind the host with key after.
func (s *Snapshot) EditionAfter(ctx context.Context, name, after string) iter.Seq2[SegmentEntry, error] {
	if after != "" {
		after += "!"
	}
	return s.editionFrom(ctx, name, "", after)
}

// EditionUnder is like Edition, but walks only hosts whose keys begin with prefix.
func (s *Snapshot) EditionUnder(ctx context.Context, name, prefix string) iter.Seq2[SegmentEntry, error] {
	return s.editionFrom(ctx, name, prefix, prefix)
}

// editionFrom walks the entries of an edition whose keys begin with prefix and are at or behind
// start.
func (s *Snapshot) editionFrom(ctx context.Context, name, prefix, start string) iter.Seq2[SegmentEntry, error] {
	return func(yield func(SegmentEntry, error) bool) {
		r, err := s.editionRun(ctx, name)
		if err != nil {
			yield(SegmentEntry{}, fmt.Errorf("catalog: edition %q: %w", name, err))
			return
		}
		s.entriesOf(ctx, scanFrom(ctx, []*run{r}, tableHost+prefix, tableHost+start))(yield)
	}
}

// HostSize is the size of one host's segments in an edition.
type HostSize struct {
	Key   string // see Key
	Bytes int64
}

// EditionSizes walks the hosts of an edition whose keys begin with prefix, in the order of their
// keys. It also counts entries that were taken down or have expired, so its result never changes.
// It takes about a microsecond for each host.
func (s *Snapshot) EditionSizes(ctx context.Context, name, prefix string) iter.Seq2[HostSize, error] {
	return func(yield func(HostSize, error) bool) {
		r, err := s.editionRun(ctx, name)
		if err != nil {
			yield(HostSize{}, fmt.Errorf("catalog: edition %q: %w", name, err))
			return
		}
		decoded(scan(ctx, passing(r), tableSummary+prefix), func(row []byte) (HostSize, error) {
			s, err := summaryOfRow(row)
			return HostSize{hostOfRow(row), s.Bytes}, err
		})(yield)
	}
}

// editionRun opens the run with which an edition was published.
func (s *Snapshot) editionRun(ctx context.Context, name string) (*run, error) {
	e, err := s.EditionInfo(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, r := range s.state.runs {
		if r.Level == 0 && strings.HasPrefix(r.Name, runPrefix+seqKey(e.Version)+"-") {
			return r, nil
		}
	}
	version, err := s.catalog.log.read(ctx, e.Version)
	if err != nil {
		return nil, err
	}
	return s.catalog.lib.open(ctx, version.Added)
}

// Batch returns the version that published a batch, and whether the batch is published.
func (s *Snapshot) Batch(ctx context.Context, id string) (Version, bool, error) {
	row, ok, err := s.batch(ctx, id)
	if err != nil {
		return Version{}, false, fmt.Errorf("catalog: batch %q: %w", id, err)
	}
	return row.Version, ok, nil
}

func (s *Snapshot) batch(ctx context.Context, id string) (row batchRow, ok bool, err error) {
	ok, err = s.lookUp(ctx, tableBatch+id, &row)
	return row, ok, err
}

// PublishedBatch is a batch and the version that published it.
type PublishedBatch struct {
	Batch
	Version
}

// Batches walks the published batches in the order of their IDs, by robot, then by time. It begins
// with the ID from, or behind it if there is no such batch.
func (s *Snapshot) Batches(ctx context.Context, from string) iter.Seq2[PublishedBatch, error] {
	return valuesOf[PublishedBatch](s.scan(ctx, tableBatch, tableBatch+from))
}

// unpublished returns those of the batches that are not published, by ID, and the latest version
// that published any of the others. ErrBatchConflict: a published batch has another digest.
func (s *Snapshot) unpublished(ctx context.Context, batches []Batch) (rest []Batch, latest Version, err error) {
	for _, b := range slices.SortedFunc(slices.Values(batches), func(a, b Batch) int { return cmp.Compare(a.ID, b.ID) }) {
		row, ok, err := s.batch(ctx, b.ID)
		switch {
		case err != nil:
			return nil, latest, err
		case !ok:
			rest = append(rest, b)
		case row.SHA256 != b.SHA256:
			return nil, latest, fmt.Errorf("batch %s has digest %s, version %d published %s: %w",
				b.ID, b.SHA256, row.N, row.SHA256, ErrBatchConflict)
		case row.N > latest.N:
			latest = row.Version
		}
	}
	return rest, latest, nil
}

// day returns today, or the latest edition's day if that is later. So days do not go back if the
// clock is set back or the zone changes.
func (s *Snapshot) day(ctx context.Context, today string) (string, error) {
	day := today
	for row, err := range scanFrom(ctx, s.state.runs, tableEdition, tableEdition+today) {
		if err != nil {
			return "", err
		}
		day = max(day, DayOf(string(row[len(tableEdition):])))
	}
	return day, nil
}

// nextEdition returns the name of the next edition of a day: "20261121", then "20261121-2".
func (s *Snapshot) nextEdition(ctx context.Context, day string) (string, error) {
	last := 0
	for row, err := range scan(ctx, s.state.runs, tableEdition+day) {
		if err != nil {
			return "", err
		}
		n := 1
		if _, number, ok := strings.Cut(string(rowKey(row)), "-"); ok {
			if n, err = strconv.Atoi(number); err != nil {
				return "", fmt.Errorf("edition %q: %w: %w", rowKey(row), err, ErrCorrupt)
			}
		}
		last = max(last, n)
	}
	if last == 0 {
		return day, nil
	}
	return fmt.Sprintf("%s-%d", day, last+1), nil
}
