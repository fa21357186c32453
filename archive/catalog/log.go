package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"sheaf/archive/store"
	"sheaf/internal/wire"
)

const (
	logPrefix = "catalog/"
	runPrefix = "runs/"
)

// recordFormat is the format number that this program writes and reads.
const recordFormat = 1

// logRecord is the JSON object catalog/<version>: one version of the log. It names everything that
// a process needs to read the catalog at that version.
type logRecord struct {
	Format  int       `json:"format"`
	N       int64     `json:"version"`
	Kind    kind      `json:"kind"`
	Prev    string    `json:"prev"` // SHA-256 of the version before; empty in the first
	At      time.Time `json:"at"`
	Edition string    `json:"edition,omitempty"`
	Token   int64     `json:"token"`             // the highest fencing token so far
	Batches []Batch   `json:"batches,omitempty"` // published by this version
	Added   runRef    `json:"added"`             // the run that this version added
	Merged  []string  `json:"merged,omitempty"`  // names of the runs that Added replaces
	Runs    []runRef  `json:"runs"`              // all runs that make up the catalog now
	NextSeq int64     `json:"next_seq"`          // the next free sequence number
}

// kind says what a version has changed.
type kind string

const (
	kindPublish  kind = "publish"
	kindRemove   kind = "remove"
	kindRestore  kind = "restore"
	kindErase    kind = "erase"
	kindMerge    kind = "merge"
	kindExpire   kind = "expire"
	kindRestrict kind = "restrict"
)

func (r *logRecord) version() Version {
	return Version{N: r.N, Edition: r.Edition, Published: r.At}
}

// Published reports whether a store has any version of a catalog.
func Published(ctx context.Context, st store.Store) (bool, error) {
	for _, err := range st.List(ctx, logPrefix, "") {
		if err != nil {
			return false, fmt.Errorf("catalog: %w", err)
		}
		return true, nil
	}
	return false, nil
}

func versionKey(n int64) string { return logPrefix + seqKey(n) }

// logbook is the log of versions in the store.
type logbook struct{ store.Log }

func newLogbook(st store.Store) logbook { return logbook{store.Log{Store: st, Key: versionKey}} }

// logEntry is a version's record with the SHA-256 of its bytes.
type logEntry struct {
	logRecord
	digest string
}

// read returns version n, or store.ErrNotExist. Version 0 is empty.
func (b logbook) read(ctx context.Context, n int64) (*logEntry, error) {
	if n == 0 {
		return &logEntry{logRecord: logRecord{NextSeq: 1}}, nil
	}
	data, err := store.ReadAll(ctx, b.Store, versionKey(n), 0, -1)
	if err != nil {
		return nil, err
	}
	e := &logEntry{digest: wire.Digest(data)}
	if err := json.Unmarshal(data, &e.logRecord); err != nil {
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

// append stores r as the version after prev, or returns an error, as Log.Append does.
func (b logbook) append(ctx context.Context, prev *logEntry, r logRecord) error {
	r.Format, r.N, r.Prev = recordFormat, prev.N+1, prev.digest
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return b.Append(ctx, r.N, data)
}
