package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
)

// FsckOptions are the settings of Fsck. The zero value is valid.
type FsckOptions struct {
	// Deep also reads every segment and compares its SHA-256.
	Deep bool
	// Verify, if set, replaces the comparison of a deep check. It is called for every entry that is
	// neither taken down nor expired, reads the segment and returns what is wrong with it.
	Verify func(context.Context, SegmentEntry) error
	// Damaged, if set, is called with the key of each object that may be damaged or missing, for
	// every problem, also if the report does not list it. It may be called several times for one
	// object. named is false if the report names another object: one of the two is then damaged.
	Damaged func(key string, named bool)
	// Index, if set, is a derived index to check, too.
	Index DerivedIndex
	// TempDir is for lists that do not fit in memory; the system's if empty.
	TempDir string
}

// Damage is FsckOptions.Verify's error if another object than the segment's is damaged.
type Damage struct {
	Key string // of the object
	Err error
}

func (d *Damage) Error() string { return d.Err.Error() }

// Unwrap returns the error that says what is wrong with the object.
func (d *Damage) Unwrap() error { return d.Err }

// Problem is one thing that Fsck found wrong.
type Problem struct {
	Where  string `json:"where"` // key of the object
	Detail string `json:"detail"`
}

// Report lists the findings of Fsck.
type Report struct {
	Versions int64 `json:"versions"`
	Runs     int64 `json:"runs"` // runs that were read
	Editions int64 `json:"editions"`
	Batches  int64 `json:"batches"`
	Segments int64 `json:"segments"`
	Bytes    int64 `json:"bytes"` // of segments
	Objects  int64 `json:"objects"`
	Verified int64 `json:"verified"` // segments whose bytes were read

	Found    int64     `json:"found"`    // problems
	Problems []Problem `json:"problems"` // the first thousand

	// Orphans are objects to which nothing published refers: objects of batches before their
	// publication, and of attempts that failed. They are not a problem.
	Orphans     int64    `json:"orphans"`
	OrphanBytes int64    `json:"orphan_bytes"`
	OrphanKeys  []string `json:"orphan_keys,omitempty"` // the first thousand

	// LeftOver are objects of the derived index that it does not need any more, or does not need
	// yet. They are not a problem.
	LeftOver      int64 `json:"left_over"`
	LeftOverBytes int64 `json:"left_over_bytes"`

	damaged func(key string, named bool) // FsckOptions.Damaged
}

// maxListed limits the problems, orphans and candidates that a report names.
const maxListed = 1000

// OK reports whether Fsck found no problem.
func (r *Report) OK() bool { return r.Found == 0 }

func (r *Report) problem(where, format string, args ...any) {
	r.damaged(where, true)
	if r.Found++; len(r.Problems) < maxListed {
		r.Problems = append(r.Problems, Problem{Where: where, Detail: fmt.Sprintf(format, args...)})
	}
}

// suspect reports that a version's record may be damaged, because an object differs from it.
func (r *Report) suspect(version int64) { r.damaged(versionKey(version), false) }

// failed adds err, from reading an object, as a problem, unless err is nil. It reports whether err
// is an error.
func (r *Report) failed(where string, err error) bool {
	if err != nil {
		r.problem(where, "%v", err)
	}
	return err != nil
}

// sortMemory limits the memory in which Fsck sorts the list of needed objects, in bytes.
const sortMemory = 64 << 20

// Fsck checks that the catalog in a store is whole and that everything it refers to is there:
//   - the log has no gaps, and each version names the digest of the version before,
//   - every run's digest, blocks, order of rows, and the rows themselves are right,
//   - merging has lost no row that was published,
//   - every segment's object is there and long enough, and no two segments overlap,
//   - every batch has all its segments.
//
// It changes nothing, and may run while the catalog is in use. It holds the last version's block
// indexes and 64 MiB of sorted rows in memory. The report lists what is wrong with the catalog; an
// error means that Fsck could not check.
func Fsck(ctx context.Context, st store.Store, opt FsckOptions) (_ *Report, err error) {
	lib, err := newLibrary(st, 1)
	if err != nil {
		return nil, err
	}
	if opt.Verify == nil {
		opt.Verify = compareDigest(st)
	}
	if opt.Damaged == nil {
		opt.Damaged = func(string, bool) {}
	}
	f := &fsck{
		opt: opt, log: newLogbook(st), lib: lib, report: &Report{Problems: []Problem{}, damaged: opt.Damaged},
		tombstones: make(tombstones), needed: sortedrun.NewSorter(opt.TempDir, sortMemory, bytes.Compare),
	}
	defer wrap(&err, "fsck")
	defer func() { err = errors.Join(err, f.needed.Close()) }()
	if err := f.checkLog(ctx); err != nil {
		return nil, err
	}
	if opt.Index != nil {
		err := opt.Index.Check(ctx, opt.Deep, f.needWhole, func(where, detail string) {
			f.report.problem(where, "%s", detail)
			f.report.suspect(f.last)
		})
		if err != nil {
			return nil, err
		}
	}
	return f.report, f.checkObjects(ctx)
}

// fsck is the state of one Fsck.
type fsck struct {
	opt    FsckOptions
	log    logbook
	lib    *library
	report *Report
	needed *sortedrun.Sorter // rows "<key> <end> <start>": the ranges of objects that are needed

	last       int64         // the last version; 0 if there is none or it cannot be read
	live       []*run        // the last version's runs, as far as they can be opened
	tombstones tombstones    // of the last version
	published  sortedrun.Sum // of the runs that all versions except merges added
}

// checkLog reads the log from its beginning, and with each version the run that it added.
func (f *fsck) checkLog(ctx context.Context) error {
	last, err := f.lastVersion(ctx)
	if err != nil || last == nil {
		return err
	}
	if err := f.open(ctx, last); err != nil {
		return err
	}
	f.last = last.N
	prev := &logEntry{logRecord: logRecord{NextSeq: 1}}
	for n := int64(1); n <= last.N; n++ {
		e, err := f.log.read(ctx, n)
		if f.report.failed(versionKey(n), err) {
			if err := ctx.Err(); err != nil {
				return err
			}
			continue
		}
		f.report.Versions++
		if err := f.needWhole(versionKey(n), 0); err != nil {
			return err
		}
		f.checkChain(prev, e)
		if err := f.checkAdded(ctx, e); err != nil {
			return err
		}
		prev = e
	}
	return f.checkLive(ctx, last)
}

// lastVersion finds the last version by listing, so that gaps do not hide it. It returns nil if
// there is no version or the last one cannot be read.
func (f *fsck) lastVersion(ctx context.Context) (*logEntry, error) {
	last := ""
	for info, err := range f.log.Store.List(ctx, logPrefix, "") {
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
	e, err := f.log.read(ctx, n)
	if f.report.failed(last, err) {
		return nil, ctx.Err()
	}
	return e, nil
}

// open opens the runs of the last version and reads its tombstones. It skips runs that it cannot
// read; checkLive reports them.
func (f *fsck) open(ctx context.Context, last *logEntry) error {
	for _, ref := range last.Runs {
		if r, err := f.lib.open(ctx, ref); err == nil {
			f.live = append(f.live, r)
		}
	}
	for t, err := range eachTombstone(ctx, f.live, "") {
		if err != nil {
			break
		}
		f.tombstones.apply(t)
	}
	return ctx.Err()
}

// checkChain compares a version with the version before.
func (f *fsck) checkChain(prev, e *logEntry) {
	key := versionKey(e.N)
	if prev.N+1 == e.N && e.Prev != prev.digest {
		f.report.problem(key, "says that the version before has SHA-256 %q, it has %q", e.Prev, prev.digest)
		f.report.suspect(prev.N)
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

// checkAdded reads the run that a version added. It skips the run of a merge, which may have been
// collected since; if the run is live, checkLive reads it.
func (f *fsck) checkAdded(ctx context.Context, e *logEntry) error {
	if e.Kind == kindMerge {
		return nil
	}
	v := &versionCheck{runCheck: runCheck{f, e, e.Added}, perBatch: make(map[string]int64), expired: openExpiries(f.live)}
	sum, err := v.read(ctx, func(row []byte) error { return v.row(ctx, row) })
	if err != nil {
		return err
	}
	f.published.AddAll(sum)
	v.finish()
	return nil
}

// checkLive reads the runs of the last version. Together they must have the same rows as the runs
// that all versions except merges added.
func (f *fsck) checkLive(ctx context.Context, last *logEntry) error {
	var live sortedrun.Sum
	for _, ref := range last.Runs {
		sum, err := (&runCheck{f, last, ref}).read(ctx, nil)
		if err != nil {
			return err
		}
		live.AddAll(sum)
	}
	key := versionKey(last.N)
	if live != f.published {
		f.report.problem(key, "its runs hold %d rows (sum %016x), the versions published %d (sum %016x)",
			live.Rows, live.Hash, f.published.Rows, f.published.Hash)
	}
	f.report.failed(key, f.checkExpiries(ctx, key))
	return ctx.Err()
}

// checkExpiries checks that the entry of each expiry exists.
func (f *fsck) checkExpiries(ctx context.Context, version string) error {
	expired, entries := openExpiries(f.live), openTable(f.live)
	if expired.table == nil {
		return nil
	}
	err := errors.Join(expired.table.seek(ctx, tableExpired), entries.seek(ctx, tableHost))
	for err == nil && expired.table.under(tableExpired) {
		key := string(rowKey(expired.table.Row()))
		entry := tableHost + key[len(tableExpired):] + " "
		if err = entries.advance(ctx, entry); err == nil && !entries.under(entry) {
			f.report.problem(version, "row %q: there is no such entry", key)
		}
		if err == nil {
			err = expired.table.Next(ctx)
		}
	}
	return err
}
