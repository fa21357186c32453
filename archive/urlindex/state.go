package urlindex

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"sheaf/archive/store"
	"sheaf/internal/files"
	"sheaf/internal/wire"
)

// KeyPrefix begins the keys of all the index's objects.
const KeyPrefix = "urls/"

const (
	statePrefix = KeyPrefix + "state/"
	runPrefix   = KeyPrefix + "runs/"
)

// stateFormat is the format number that this program writes and reads.
const stateFormat = 1

// state is one entry of the index's log: the JSON object urls/state/<number>.
type state struct {
	Format int       `json:"format"`
	N      int64     `json:"state"`
	Prev   string    `json:"prev"` // SHA-256 of the entry before; empty in the first
	At     time.Time `json:"at"`
	Kind   kind      `json:"kind"`
	// Through: every entry of the catalog up to this sequence number is in the runs, except entries
	// that are erased or expired, and Holes.
	Through int64 `json:"through"`
	// Swept: no run has rows of records that were erased up to this sequence number.
	Swept int64 `json:"swept"`
	// Version is the number of a version of the catalog that has Through. Record is the SHA-256 of
	// that version's record. They are 0 and empty in a state that covers nothing.
	Version int64  `json:"version"`
	Record  string `json:"record,omitempty"`
	// Holes are the sequence numbers of entries whose segment's index could not be read.
	Holes []int64  `json:"holes,omitempty"`
	Runs  []runRef `json:"runs"`
}

// kind says what a state has changed.
type kind string

const (
	kindBuild kind = "build" // added new entries
	kindMerge kind = "merge" // merged several runs into one
	kindSweep kind = "sweep" // rewrote runs without erased records
	kindReset kind = "reset" // discarded the index
)

func stateKey(n int64) string { return fmt.Sprintf("%s%020d", statePrefix, n) }

// entry is a state with the SHA-256 of its bytes.
type entry struct {
	state
	digest string
}

// covers reports whether the rows of an entry are in the runs.
func (s *state) covers(seq int64) bool {
	if seq > s.Through {
		return false
	}
	_, hole := slices.BinarySearch(s.Holes, seq)
	return !hole
}

// states is the log of states in the store.
type states struct {
	store.Log
	now      func() time.Time // for append
	boundary files.Boundary
}

// statesOf returns the log for reading.
func statesOf(st store.Store) states { return states{Log: store.Log{Store: st, Key: stateKey}} }

// read returns state n; state 0 covers nothing. If the state cannot be used, read returns
// ErrCorrupt together with the state's number and digest, so that another state can follow it.
func (l states) read(ctx context.Context, n int64) (*entry, error) {
	if n == 0 {
		return &entry{}, nil
	}
	data, err := store.ReadAll(ctx, l.Store, stateKey(n), 0, -1)
	if err != nil {
		return nil, err
	}
	s, err := parseState(data, n)
	if err != nil {
		s, err = state{N: n}, fmt.Errorf("%s: %w", stateKey(n), err)
	}
	return &entry{s, wire.Digest(data)}, err
}

// parseState parses the bytes of state n, and checks its numbers and runs.
func parseState(data []byte, n int64) (s state, err error) {
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("%w: %w", err, ErrCorrupt)
	}
	switch {
	case s.Format != stateFormat:
		return s, fmt.Errorf("format %d, this program reads %d: %w", s.Format, stateFormat, ErrCorrupt)
	case s.N != n:
		return s, fmt.Errorf("holds state %d: %w", s.N, ErrCorrupt)
	case s.Through < 0 || s.Swept < 0 || s.Version < 0 || !slices.IsSorted(s.Holes):
		return s, fmt.Errorf("through %d, swept %d, version %d, holes %v: %w", s.Through, s.Swept, s.Version, s.Holes, ErrCorrupt)
	}
	for _, r := range s.Runs {
		if err := r.check(); err != nil {
			return s, err
		}
	}
	return s, nil
}

// maxAge limits the time from storing a run's first object to naming the run in a state. Collection
// deletes unnamed runs after a day or more.
const maxAge = 6 * time.Hour

// append stores s as the state after prev, as Log.Append does, and returns the new entry.
func (l states) append(ctx context.Context, prev *entry, s state) (*entry, error) {
	for _, r := range s.Runs {
		if age := time.Now().Round(0).Sub(r.built.Round(0)); !r.built.IsZero() && age > maxAge {
			return nil, fmt.Errorf("run %s was stored %v ago and may be deleted by now; run the update again", r.Name, age)
		}
	}
	s.Format, s.N, s.Prev = stateFormat, prev.N+1, prev.digest
	s.At = l.now().UTC().Truncate(time.Millisecond)
	if s.Runs == nil {
		s.Runs = []runRef{}
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	err = l.boundary.Write(string(s.Kind)+writeState, func() error { return l.Append(ctx, s.N, data) })
	if err != nil {
		return nil, err
	}
	return &entry{s, wire.Digest(data)}, nil
}

// The objects of a run. Together they are a ZipNum cluster.
const (
	fileRows   = "cdx.gz"       // rows, in gzip members of some lines each
	fileBlocks = "cluster.idx"  // one line for each member
	filePlaces = "location.txt" // tells other programs where cdx.gz is: in the same directory
	filePages  = "pages"        // one line for each section of cluster.idx
)

// places is the content of location.txt.
const places = fileRows + "\t" + fileRows + "\n"

// runRef describes a run within a state.
type runRef struct {
	Name   string `json:"name"`  // key of its directory
	Level  int    `json:"level"` // how often its rows have been merged
	Rows   int64  `json:"rows"`
	Blocks int64  `json:"blocks"`
	Cdx    file   `json:"cdx"`   // fileRows
	Idx    file   `json:"idx"`   // fileBlocks
	Pages  file   `json:"pages"` // filePages

	built time.Time // when this process began to store it; zero for a run from a state
}

// file describes one object of a run.
type file struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

func (r *runRef) check() error {
	if id, ok := strings.CutPrefix(r.Name, runPrefix); !ok || id == "" || strings.Contains(id, "/") || store.CheckKey(r.Name) != nil {
		return fmt.Errorf("run %q: is not the name of a run: %w", r.Name, ErrCorrupt)
	}
	if r.Rows <= 0 || r.Blocks <= 0 || r.Cdx.Size <= 0 || r.Idx.Size <= 0 || r.Pages.Size <= 0 || r.Pages.Size > maxPages {
		return fmt.Errorf("run %s: %d rows, %d blocks, %d, %d and %d bytes: %w", r.Name, r.Rows, r.Blocks, r.Cdx.Size, r.Idx.Size, r.Pages.Size, ErrCorrupt)
	}
	return nil
}

// maxPages limits the size of a run's list of pages, in bytes. It is enough for 10¹¹ rows.
const maxPages = 1 << 30

// objects returns the keys and sizes of a run's objects, in the order in which they are stored.
func (r *runRef) objects() []store.Info {
	return []store.Info{
		{Key: r.Name + "/" + fileRows, Size: r.Cdx.Size}, {Key: r.Name + "/" + fileBlocks, Size: r.Idx.Size},
		{Key: r.Name + "/" + filePlaces, Size: int64(len(places))}, {Key: r.Name + "/" + filePages, Size: r.Pages.Size},
	}
}
