package catalog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
)

// FsckOptions say how thoroughly Fsck looks.
type FsckOptions struct {
	// Deep reads every segment and compares its SHA-256.
	Deep bool
	// Verify, where set, is called by a deep check for every line in place of
	// the comparison: it reads the segment and says what is wrong with it.
	Verify func(context.Context, SegmentEntry) error
	// Indexes are checked too.
	Indexes []CheckedIndex
	// TempDir is where lists are sorted that do not fit in memory.
	TempDir string
}

// Problem is one thing that is not as it should be.
type Problem struct {
	Where  string `json:"where"` // key of the object
	Detail string `json:"detail"`
}

// Report is what Fsck found.
type Report struct {
	Versions int64 `json:"versions"`
	Runs     int64 `json:"runs"` // that were read
	Editions int64 `json:"editions"`
	Batches  int64 `json:"batches"`
	Segments int64 `json:"segments"`
	Bytes    int64 `json:"bytes"` // of segments
	Objects  int64 `json:"objects"`
	Verified int64 `json:"verified"` // segments whose bytes were read

	Found    int64     `json:"found"`    // problems
	Problems []Problem `json:"problems"` // the first thousand

	// Orphans are objects that nothing published refers to: of batches under
	// way, and of attempts that failed. They are no fault.
	Orphans     int64    `json:"orphans"`
	OrphanBytes int64    `json:"orphan_bytes"`
	OrphanKeys  []string `json:"orphan_keys,omitempty"` // the first thousand

	// LeftOver are objects of derived indexes that these do not need any more, or not yet. They are
	// no fault either.
	LeftOver      int64 `json:"left_over"`
	LeftOverBytes int64 `json:"left_over_bytes"`
}

// maxListed is how many problems and orphans a report names.
const maxListed = 1000

// OK reports whether nothing is wrong.
func (r *Report) OK() bool { return r.Found == 0 }

func (r *Report) problem(where, format string, args ...any) {
	if r.Found++; len(r.Problems) < maxListed {
		r.Problems = append(r.Problems, Problem{Where: where, Detail: fmt.Sprintf(format, args...)})
	}
}

// sortMemory bounds what Fsck holds of its lists.
const sortMemory = 64 << 20

// Fsck checks that the catalog in a store is whole and that what it promises is
// there: the log without gaps and each entry chained to the one before; every
// run's bytes, blocks and order; every row in its place; what merging made of the
// runs against the runs as published; every segment's object, long enough, and no two
// in the same bytes; every batch's segments. It changes nothing, needs memory only for the log and block
// indexes, and may run while the catalog is in use. The error is of Fsck itself;
// what is wrong with the catalog is in the report.
func Fsck(ctx context.Context, st store.Store, opt FsckOptions) (_ *Report, err error) {
	lib, err := newLibrary(st, 1)
	if err != nil {
		return nil, err
	}
	f := &fsck{
		ctx: ctx, opt: opt, lib: lib, log: newLogbook(st), report: &Report{Problems: []Problem{}},
		objects: sortedrun.NewSorter(opt.TempDir, sortMemory, bytes.Compare),
	}
	defer func() { err = errors.Join(err, f.objects.Close()) }()
	if err := errors.Join(f.checkLog(), f.checkIndexes(), f.checkObjects()); err != nil {
		return nil, fmt.Errorf("fsck: %w", err)
	}
	return f.report, nil
}

// fsck is one check under way.
type fsck struct {
	ctx    context.Context
	opt    FsckOptions
	lib    *library
	log    logbook
	report *Report

	objects *sortedrun.Sorter // rows of everything referred to, see need

	tombstones tombstones
	last       int64  // version
	live       []*run // of the last version, as far as they can be opened
	published  rowSum // of the runs that publications and removals added
}

// checkLog reads the log from its start, and each run when its version comes.
func (f *fsck) checkLog() error {
	last, err := f.lastVersion()
	if err != nil || last == nil {
		return err
	}
	if err := f.loadTombstones(last); err != nil {
		return err
	}
	prev := &logEntry{logRecord: logRecord{NextSeq: 1}}
	for n := int64(1); n <= last.N; n++ {
		e, err := f.log.read(f.ctx, n)
		if f.failed(versionKey(n), err) {
			if err := f.ctx.Err(); err != nil {
				return err
			}
			continue
		}
		f.report.Versions++
		if err := f.needWhole(versionKey(n), 0); err != nil {
			return err
		}
		f.checkEntry(prev, e)
		if err := f.checkAdded(e); err != nil {
			return err
		}
		prev = e
	}
	return f.checkLive(last)
}

// failed notes a problem that a read met, and reports whether it met one.
func (f *fsck) failed(where string, err error) bool {
	if err != nil {
		f.report.problem(where, "%v", err)
	}
	return err != nil
}

// lastVersion finds the last entry by listing, which finds it behind gaps too.
func (f *fsck) lastVersion() (*logEntry, error) {
	last := ""
	for info, err := range f.log.Store.List(f.ctx, logPrefix, "") {
		if err != nil {
			return nil, err
		}
		last = info.Key
	}
	if last == "" {
		return nil, nil
	}
	var n int64
	if _, err := fmt.Sscanf(last, logPrefix+"%d", &n); err != nil || versionKey(n) != last {
		f.report.problem(last, "is not the name of a version")
		return nil, nil
	}
	e, err := f.log.read(f.ctx, n)
	if f.failed(last, err) {
		return nil, f.ctx.Err()
	}
	return e, nil
}

func (f *fsck) loadTombstones(last *logEntry) error {
	f.last = last.N
	for _, ref := range last.Runs {
		if r, err := f.lib.open(f.ctx, ref); err == nil { // checkLive says what is wrong
			f.live = append(f.live, r)
		}
	}
	f.tombstones = make(tombstones)
	for t, err := range eachTombstone(f.ctx, f.live, "") {
		if err != nil {
			break // checkLive says so
		}
		f.tombstones.apply(t)
	}
	return f.ctx.Err()
}

// checkEntry checks what a version makes of the one before.
func (f *fsck) checkEntry(prev, e *logEntry) {
	key := versionKey(e.N)
	if prev.N+1 == e.N && e.Prev != prev.digest {
		f.report.problem(key, "says that the version before has SHA-256 %q, it has %q", e.Prev, prev.digest)
	}
	if e.NextSeq < prev.NextSeq || e.Token < prev.Token {
		f.report.problem(key, "next sequence number %d and token %d fall behind the version before, %d and %d",
			e.NextSeq, e.Token, prev.NextSeq, prev.Token)
	}
	if prev.N+1 != e.N {
		return // the gap is reported
	}
	want := map[string]bool{e.Added.Name: true}
	for _, r := range prev.Runs {
		want[r.Name] = true
	}
	for _, name := range e.Merged {
		if !want[name] {
			f.report.problem(key, "merges run %s, which the version before does not have", name)
		}
		delete(want, name)
	}
	for _, r := range e.Runs {
		if !want[r.Name] {
			f.report.problem(key, "names run %s, which neither it nor the version before has added", r.Name)
		}
		delete(want, r.Name)
	}
	for name := range want {
		f.report.problem(key, "drops run %s without merging it", name)
	}
}

// checkAdded reads the run that a publication or removal added. Runs of merges
// may have been collected since, and what is live of them is read at the end.
func (f *fsck) checkAdded(e *logEntry) error {
	if e.Kind == kindMerge {
		return nil
	}
	v := &versionCheck{fsck: f, entry: e, rows: make(map[string]int64), expired: openExpiries(f.live)}
	sum, err := f.checkRun(e.Added, v.row)
	if err != nil {
		return err
	}
	f.published.addAll(sum)
	v.finish()
	return nil
}

// checkLive reads the merged runs of the last version: all runs together must
// hold the very rows that publications and removals added.
func (f *fsck) checkLive(last *logEntry) error {
	var live rowSum
	for _, ref := range last.Runs {
		sum, err := f.checkRun(ref, nil)
		if err != nil {
			return err
		}
		live.addAll(sum)
	}
	if live != f.published {
		f.report.problem(versionKey(last.N), "its runs hold %d rows (sum %016x), the versions published %d (sum %016x)",
			live.rows, live.sum, f.published.rows, f.published.sum)
	}
	return f.checkExpiries()
}

// checkExpiries looks for the line of each expiry.
func (f *fsck) checkExpiries() error {
	expired, lines := openExpiries(f.live), openTable(f.live)
	if expired.table == nil {
		return nil
	}
	err := errors.Join(expired.table.seek(f.ctx, tableExpired), lines.seek(f.ctx, tableHost))
	for err == nil && expired.table.under(tableExpired) {
		key := string(rowKey(expired.table.Row()))
		line := tableHost + key[len(tableExpired):] + " "
		if err = lines.advance(f.ctx, line); err == nil && !lines.under(line) {
			f.report.problem(versionKey(f.last), "row %q: there is no such line", key)
		}
		if err == nil {
			err = expired.table.Next(f.ctx)
		}
	}
	f.failed(versionKey(f.last), err)
	return f.ctx.Err()
}

// checkSegment checks that a line's bytes are there.
func (f *fsck) checkSegment(l SegmentEntry, expired bool) error {
	f.report.Segments++
	f.report.Bytes += l.Length
	if expired || f.tombstones.cover(l) {
		return f.need(l.Object, -1, -1) // it may be deleted, or not yet
	}
	if err := f.need(l.Object, l.Offset, l.Offset+l.Length); err != nil {
		return err
	}
	if !f.opt.Deep {
		return nil
	}
	verify := f.opt.Verify
	if verify == nil {
		verify = f.verify
	}
	if err := verify(f.ctx, l); err != nil {
		f.report.problem(l.Object, "segment of %s, %d bytes at %d: %v", l.Host, l.Length, l.Offset, err)
	}
	f.report.Verified++
	return f.ctx.Err()
}

// verify compares a segment's SHA-256.
func (f *fsck) verify(ctx context.Context, l SegmentEntry) error {
	r, err := f.lib.store.Open(ctx, l.Object, l.Offset, l.Length)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(h, r)
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != l.SHA256 {
		return fmt.Errorf("SHA-256 is %s, the catalog says %s", got, l.SHA256)
	}
	return nil
}

// need notes that an object is referred to from start to end. Ranges of one
// object that are not empty must not overlap, as those of a pack do not; an
// object that may be missing ends at -1. Rows "<key> <end> <start>" sort by the end.
func (f *fsck) need(key string, start, end int64) error {
	if err := store.CheckKey(key); err != nil {
		f.report.problem(key, "%v", err)
		return nil
	}
	return f.objects.Add(fmt.Appendf(nil, "%s %020d %020d\n", key, end+1, start+1))
}

// needWhole notes that an object of the catalog's own must be there, as often as it is asked for.
func (f *fsck) needWhole(key string, size int64) error { return f.need(key, size, size) }

// checkObjects compares what is referred to with the store's own listing. Both
// are in the order of their keys.
func (f *fsck) checkObjects() error {
	needed, err := f.objects.Rows(f.ctx)
	if err != nil {
		return err
	}
	for info, err := range f.lib.store.List(f.ctx, "", "") {
		if err != nil {
			return err
		}
		for needed.Row() != nil && neededKey(needed.Row()) < info.Key {
			if err := f.takeNeeded(needed, nil); err != nil {
				return err
			}
		}
		f.report.Objects++
		if needed.Row() != nil && neededKey(needed.Row()) == info.Key {
			if err := f.takeNeeded(needed, &info); err != nil {
				return err
			}
		} else if !f.leftOver(info) && !slices.ContainsFunc([]string{manifestPrefix, listPrefix, releasesPrefix}, func(p string) bool { return strings.HasPrefix(info.Key, p) }) {
			f.orphan(info)
		}
	}
	for needed.Row() != nil {
		if err := f.takeNeeded(needed, nil); err != nil {
			return err
		}
	}
	return nil
}

// manifestPrefix begins the keys of the batches' manifests, which are kept for ever.
const manifestPrefix = "batches/"

// releasesPrefix begins the keys of the robots' programs, which are no part of the archive.
const releasesPrefix = "releases/"

func neededKey(row []byte) string {
	key, _, _ := strings.Cut(string(row), " ")
	return key
}

// takeNeeded steps over all rows of one key and checks that they do not overlap,
// and the last, which ends farthest, against the object; nil says that there is none.
func (f *fsck) takeNeeded(needed sortedrun.Rows, info *store.Info) error {
	key := neededKey(needed.Row())
	var bytes int64
	for needed.Row() != nil && neededKey(needed.Row()) == key {
		var start, end int64
		if _, err := fmt.Sscanf(string(needed.Row()[len(key)+1:]), "%d %d", &end, &start); err != nil {
			return err
		}
		if start < bytes && start < end {
			f.report.problem(key, "two segments share bytes: one ends at %d, another has %d to %d", bytes-1, start-1, end-1)
		}
		bytes = end
		if err := needed.Next(f.ctx); err != nil {
			return err
		}
	}
	bytes--
	switch {
	case info == nil && bytes >= 0:
		f.report.problem(key, "is missing")
	case info != nil && info.Size < bytes:
		f.report.problem(key, "has %d bytes, the catalog refers to %d", info.Size, bytes)
	}
	return nil
}

func (f *fsck) orphan(info store.Info) {
	f.report.OrphanBytes += info.Size
	if f.report.Orphans++; len(f.report.OrphanKeys) < maxListed {
		f.report.OrphanKeys = append(f.report.OrphanKeys, info.Key)
	}
}

// checkIndexes lets the derived indexes be checked, and notes what they need.
func (f *fsck) checkIndexes() error {
	for _, a := range f.opt.Indexes {
		err := a.Check(f.ctx, f.opt.Deep, f.needWhole, func(where, detail string) { f.report.problem(where, "%s", detail) })
		if err != nil {
			return err
		}
	}
	return nil
}

// leftOver counts an object that its index does not need any more, and reports whether it is such.
func (f *fsck) leftOver(info store.Info) bool {
	for _, a := range f.opt.Indexes {
		if strings.HasPrefix(info.Key, a.Prefix()) {
			f.report.LeftOver++
			f.report.LeftOverBytes += info.Size
			return true
		}
	}
	return false
}
