package catalog

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"sheaf/archive/store"
	"sheaf/internal/files"
)

// compose stores the rows that fill adds, and returns the record of the version that adds them to
// the head. The rows take n sequence numbers.
func (c *Catalog) compose(ctx context.Context, head *state, k kind, at time.Time, n int64, fill func(*runWriter) error) (*logRecord, error) {
	run, err := c.buildRun(ctx, k, head.N+1, fill)
	if err != nil {
		return nil, err
	}
	return &logRecord{Kind: k, At: at, Token: head.Token, Added: run, Runs: addRun(head.Runs, run), NextSeq: head.NextSeq + n}, nil
}

// buildRun writes the rows that fill adds as a run to a temporary file, and stores the run under a
// name of its own. Nobody reads the run until a version names it.
func (c *Catalog) buildRun(ctx context.Context, k kind, version int64, fill func(*runWriter) error) (ref runRef, err error) {
	f, err := files.Nameless(c.opt.TempDir)
	if err != nil {
		return ref, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := newRunWriter(f, c.lib.codec, c.opt.BlockSize)
	if err := fill(w); err != nil {
		return ref, err
	}
	if ref, err = w.finish(); err != nil {
		return ref, err
	}
	ref.Name = runPrefix + seqKey(version) + "-" + strings.ToLower(rand.Text())
	ref.built = time.Now()
	return ref, c.opt.Boundary.Write(string(k)+writeRun, func() error {
		return store.PutOwn(ctx, c.lib.store, ref.Name, f, ref.Size)
	})
}
