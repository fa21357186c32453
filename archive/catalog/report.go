package catalog

import (
	"context"
	"fmt"
)

// FsckOptions are the settings of Fsck.
type FsckOptions struct {
	// Deep also reads every segment and compares its SHA-256.
	Deep bool
	// Verify, if set, replaces that comparison: a deep check calls it for every entry. It reads the
	// segment and returns what is wrong with it.
	Verify func(context.Context, SegmentEntry) error
	// Damaged, if set, is called with the key of each object that may be damaged or missing: of
	// every problem, also of those that the report does not list. It may be called several times
	// for one. named is false if the report names another object than this one, and only one of
	// the two need be damaged.
	Damaged func(key string, named bool)
	// Indexes are checked, too.
	Indexes []CheckedIndex
	// TempDir is for lists that do not fit in memory; the system's if empty.
	TempDir string
}

// Damage is an error of FsckOptions.Verify about another object than the segment's.
type Damage struct {
	Key string // of the object
	Err error
}

func (d *Damage) Error() string { return d.Err.Error() }

// Unwrap returns what is wrong.
func (d *Damage) Unwrap() error { return d.Err }

// Problem is one thing that is wrong.
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

	// Orphans are objects that nothing published refers to: of batches that are on their way, and
	// of attempts that failed. They are not a problem.
	Orphans     int64    `json:"orphans"`
	OrphanBytes int64    `json:"orphan_bytes"`
	OrphanKeys  []string `json:"orphan_keys,omitempty"` // the first thousand

	// LeftOver are objects of derived indexes that these do not need any more, or not yet. They are
	// not a problem.
	LeftOver      int64 `json:"left_over"`
	LeftOverBytes int64 `json:"left_over_bytes"`

	damaged func(key string, named bool) // FsckOptions.Damaged
}

// maxListed limits the problems, orphans and candidates that a report names.
const maxListed = 1000

// OK reports whether nothing is wrong.
func (r *Report) OK() bool { return r.Found == 0 }

func (r *Report) problem(where, format string, args ...any) {
	r.damaged(where, true)
	if r.Found++; len(r.Problems) < maxListed {
		r.Problems = append(r.Problems, Problem{Where: where, Detail: fmt.Sprintf(format, args...)})
	}
}

// suspect says that a version may be what is damaged where an object does not agree with it.
func (r *Report) suspect(version int64) { r.damaged(versionKey(version), false) }

// failed adds an error of reading an object as a problem, and reports whether err is one.
func (r *Report) failed(where string, err error) bool {
	if err != nil {
		r.problem(where, "%v", err)
	}
	return err != nil
}
