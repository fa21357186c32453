package catalog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"time"

	"sheaf/archive/store"
)

const (
	logPrefix = "catalog/"
	runPrefix = "runs/"
)

// recordFormat is the format number that this version writes and reads.
const recordFormat = 1

// record is one entry of the log, the JSON object catalog/<version>. It says
// everything that a node must know to read the catalog at that version.
type record struct {
	Format  int       `json:"format"`
	N       int64     `json:"version"`
	Kind    kind      `json:"kind"`
	Prev    string    `json:"prev"` // SHA-256 of the entry before, empty in the first
	At      time.Time `json:"at"`
	Edition string    `json:"edition,omitempty"`
	Token   int64     `json:"token"`             // the highest so far
	Batches []Batch   `json:"batches,omitempty"` // that this version published
	Added   runRef    `json:"added"`             // the run that came with this version
	Merged  []string  `json:"merged,omitempty"`  // runs that Added replaces
	Runs    []runRef  `json:"runs"`              // all runs that make up the catalog now
	NextSeq int64     `json:"next_seq"`          // sequence number that nothing has yet
}

// kind is what a version did.
type kind string

const (
	kindPublish kind = "publish"
	kindRemove  kind = "remove"
	kindRestore kind = "restore"
	kindErase   kind = "erase"
	kindMerge   kind = "merge"
	kindExpire  kind = "expire"
)

func (r *record) version() Version {
	return Version{N: r.N, Edition: r.Edition, Published: r.At}
}

func versionKey(n int64) string { return logPrefix + seqKey(n) }

// logbook is the numbered log in the store. Versions count from 1 without gaps,
// because N+1 is only ever put by one who has read N; so whether a version
// exists also says whether all before it do, and the last is found by probing.
type logbook struct{ store store.Store }

// entry is a record with the digest of its bytes.
type entry struct {
	record
	digest string
}

// last gives the number of the last version, knowing that version n exists (0: nothing known).
func (b logbook) last(ctx context.Context, n int64) (int64, error) {
	var failed error
	exists := func(n int64) bool {
		_, err := b.store.Stat(ctx, versionKey(n))
		if err != nil && !errors.Is(err, store.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
		return err == nil
	}
	step := int64(1)
	for exists(n+step) && failed == nil {
		n += step
		step *= 2
	}
	more := sort.Search(int(step-1), func(i int) bool { return failed != nil || !exists(n+int64(i)+1) })
	return n + int64(more), failed
}

// read gives the entry of version n, or store.ErrNotExist.
func (b logbook) read(ctx context.Context, n int64) (*entry, error) {
	if n == 0 {
		return &entry{record: record{NextSeq: 1}}, nil
	}
	data, err := readAll(ctx, b.store, versionKey(n), 0, -1)
	if err != nil {
		return nil, err
	}
	e := &entry{digest: digest(data)}
	if err := json.Unmarshal(data, &e.record); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", versionKey(n), err, ErrCorrupt)
	}
	if e.Format != recordFormat {
		return nil, fmt.Errorf("%s: format %d, this program reads %d", versionKey(n), e.Format, recordFormat)
	}
	if e.N != n {
		return nil, fmt.Errorf("%s: holds version %d: %w", versionKey(n), e.N, ErrCorrupt)
	}
	return e, nil
}

// errLost says that another got the version's number.
var errLost = errors.New("version was taken by another")

// append puts the entry that follows on prev. It fails with errLost where
// another was first. A put that failed may have happened, and one that found the
// number taken may have found its own: so either way the log is read again, and
// what is there decides. Where that is nothing, the put's error is returned and
// the outcome stays open; who repeats the whole publication will find it.
func (b logbook) append(ctx context.Context, prev *entry, r record) error {
	r.Format, r.N, r.Prev = recordFormat, prev.N+1, prev.digest
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	put := func() error { return b.store.Put(ctx, versionKey(r.N), bytes.NewReader(data), int64(len(data))) }
	failed := put()
	if failed == nil {
		return nil
	}
	there, err := readAll(ctx, b.store, versionKey(r.N), 0, -1)
	switch {
	case err != nil:
		return failed
	case !bytes.Equal(there, data):
		return errLost
	case errors.Is(failed, store.ErrExists):
		return nil
	}
	// It can be seen, but what failed may have been the sync after it. That the key
	// is taken is only said of an object that is durable.
	if err := put(); err != nil && !errors.Is(err, store.ErrExists) {
		return failed
	}
	return nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
