package catalog

import (
	"context"
	"fmt"
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
