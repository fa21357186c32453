package urlindex

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
)

// Index lets the catalog's Collect and Fsck handle the URL index. It implements
// catalog.DerivedIndex.
type Index struct{ store store.Store }

// NewIndex returns the index in a store.
func NewIndex(st store.Store) *Index { return &Index{st} }

// Prefix returns KeyPrefix, for catalog.DerivedIndex.
func (a *Index) Prefix() string { return KeyPrefix }

// Needs returns a function that reports whether an object is needed. The whole log is needed, and
// the runs of its newest state. A run that a builder has just stored is in no state yet. A state
// names it within hours (see maxAge), or never.
func (a *Index) Needs(ctx context.Context) (func(key string) bool, error) {
	log := statesOf(a.store)
	n, err := log.Last(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("URL index: %w", err)
	}
	e, err := log.read(ctx, n)
	if errors.Is(err, ErrCorrupt) {
		return func(string) bool { return true }, nil // the builder will build a new index, and then needs none of the old objects
	}
	if err != nil {
		return nil, fmt.Errorf("URL index: %w", err)
	}
	live := make(map[string]bool)
	for _, r := range e.Runs {
		live[r.Name] = true
	}
	return func(key string) bool {
		return !strings.HasPrefix(key, runPrefix) || live[path.Dir(key)]
	}, nil
}

// Check checks that the log has no gaps, that its chain of digests is intact, and that the index is
// of the catalog beside it. It checks the objects of the live runs: their digests, every block's
// place, checksum and order, and the lists of blocks. A deep check also compares each entry's rows
// with its segment's index, and holds some 100 bytes for each entry in memory.
func (a *Index) Check(ctx context.Context, deep bool, need func(key string, size int64) error, problem func(where, detail string)) error {
	c := &check{store: a.store, deep: deep, need: need, problem: problem, sums: make(map[int64]sortedrun.Sum)}
	if err := c.log(ctx); err != nil {
		return fmt.Errorf("URL index: %w", err)
	}
	return nil
}

// check is the state of one Index.Check.
type check struct {
	store   store.Store
	deep    bool
	need    func(key string, size int64) error
	problem func(where, detail string)

	sums map[int64]sortedrun.Sum // by entry: sum of the indexed rows; only in a deep check
}

// add adds a row to a sum. It ignores the row's place in the edition's file, because that may have
// changed since.
func add(s sortedrun.Sum, r Row) sortedrun.Sum {
	r.Filename, r.FileOffset = warcSuffix, 0
	s.Add(appendRow(nil, &r))
	return s
}

// failed reports a problem, unless the context has ended.
func (c *check) failed(ctx context.Context, where string, err error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.problem(where, err.Error())
	return nil
}

// log checks the states, and the runs of the last one.
func (c *check) log(ctx context.Context) error {
	log := statesOf(c.store)
	prev, broken := &entry{}, error(nil) // broken is the reason why prev cannot be used
	for info, err := range c.store.List(ctx, statePrefix, "") {
		if err != nil {
			return err
		}
		if info.Key != stateKey(prev.N+1) {
			c.problem(info.Key, fmt.Sprintf("follows on state %d", prev.N))
			return nil
		}
		if err := c.need(info.Key, info.Size); err != nil {
			return err
		}
		e, err := log.read(ctx, prev.N+1)
		if err != nil && e == nil {
			return c.failed(ctx, info.Key, err)
		}
		if broken != nil && e.Kind != kindReset { // a reset may follow a state that cannot be used
			c.problem(stateKey(prev.N), broken.Error())
		}
		broken = err
		switch {
		case err != nil:
		case e.Prev != prev.digest:
			c.problem(info.Key, fmt.Sprintf("says that the state before has SHA-256 %q, it has %q", e.Prev, prev.digest))
		}
		prev = e
	}
	if broken != nil {
		c.problem(stateKey(prev.N), broken.Error())
	}
	if err := checkCatalog(ctx, c.store, &prev.state); err != nil {
		return c.failed(ctx, stateKey(prev.N), err)
	}
	for _, ref := range prev.Runs {
		for _, o := range ref.objects() {
			if err := c.need(o.Key, o.Size); err != nil {
				return err
			}
		}
		if err := c.run(ctx, ref); err != nil {
			if err := c.failed(ctx, ref.Name, err); err != nil {
				return err
			}
		}
	}
	if c.deep {
		return c.compare(ctx, &prev.state)
	}
	return nil
}

// run checks all objects of a run.
func (c *check) run(ctx context.Context, ref runRef) error {
	for name, f := range map[string]file{fileRows: ref.Cdx, fileBlocks: ref.Idx} {
		if err := c.digest(ctx, ref.Name+"/"+name, f); err != nil {
			return err
		}
	}
	if data, err := store.ReadAll(ctx, c.store, ref.Name+"/"+filePlaces, 0, -1); err != nil {
		return err
	} else if string(data) != places {
		return fmt.Errorf("%s holds %q, want %q", filePlaces, data, places)
	}
	r, err := openRun(ctx, c.store, newCache(defaultCache/8), ref)
	if err != nil {
		return err
	}
	var last []byte
	at, n := int64(0), int64(0)
	for i := range ref.Blocks {
		b, err := r.block(ctx, i)
		if err != nil {
			return err
		}
		if b.offset != at {
			return fmt.Errorf("%s: block %d lies at %d, want %d", fileBlocks, b.number, b.offset, at)
		}
		at += b.length
		l, err := r.Block(ctx, i)
		if err != nil {
			return err
		}
		if l.Len() > blockRows || l.Len() < blockRows && i < ref.Blocks-1 {
			return fmt.Errorf("%s: block %d has %d rows", fileRows, b.number, l.Len())
		}
		for k := range l.Len() {
			row, err := parseRow(l.Row(k))
			if err != nil {
				return fmt.Errorf("%s, block %d: %w", fileRows, b.number, err)
			}
			if last != nil && compareLines(l.Row(k), last) <= 0 {
				return fmt.Errorf("%s, block %d: row of %.100q after %.100q", fileRows, b.number, head(l.Row(k)), head(last))
			}
			last = append(last[:0], l.Row(k)...)
			if c.deep {
				c.sums[row.Seq] = add(c.sums[row.Seq], *row)
			}
		}
		n += int64(l.Len())
	}
	if n != ref.Rows || at != ref.Cdx.Size {
		return fmt.Errorf("holds %d rows in %d bytes, the state says %d in %d", n, at, ref.Rows, ref.Cdx.Size)
	}
	return nil
}

// digest compares an object's SHA-256 with the one in the state.
func (c *check) digest(ctx context.Context, key string, f file) error {
	got, err := store.Digest(ctx, c.store, key, 0, f.Size)
	if err == nil && got != f.SHA256 {
		err = fmt.Errorf("%s: SHA-256 is %s, the state says %s", key[strings.LastIndexByte(key, '/')+1:], got, f.SHA256)
	}
	return err
}

// compare compares the rows of each entry with its segment's own index.
func (c *check) compare(ctx context.Context, s *state) error {
	cat, err := catalog.Open(ctx, c.store, catalog.Options{})
	if err != nil {
		return c.failed(ctx, KeyPrefix, err)
	}
	snap, err := cat.Pin(ctx)
	if err != nil {
		return c.failed(ctx, KeyPrefix, err)
	}
	defer snap.Release()
	gone, err := loadWithdrawn(ctx, snap)
	if err != nil {
		return c.failed(ctx, KeyPrefix, err)
	}
	for change, err := range snap.Since(ctx, 0) {
		if err != nil {
			return c.failed(ctx, KeyPrefix, err)
		}
		l := change.Entry
		if l == nil || !s.covers(l.Seq) {
			continue
		}
		index, err := readIndex(ctx, c.store, *l)
		var pieces [][]byte
		if err == nil {
			pieces, _, err = rowsOf(index, *l, archive.WARCStart())
		}
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			delete(c.sums, l.Seq) // the segment is damaged; fsck reports that by itself
			continue
		}
		c.compareEntry(*l, pieces, gone)
		delete(c.sums, l.Seq)
	}
	for seq, have := range c.sums {
		if !s.covers(seq) || s.Swept == snap.Last() && !gone.isExpired(seq) && seq > gone.stay {
			c.problem(KeyPrefix, fmt.Sprintf("entry %d: has %d rows, and should have none", seq, have.Rows))
		}
	}
	return ctx.Err()
}

// compareEntry compares the rows that an entry should have with the entry's rows in the index.
func (c *check) compareEntry(l catalog.SegmentEntry, pieces [][]byte, gone *withdrawn) {
	have, sum := c.sums[l.Seq], sortedrun.Sum{}
	for _, piece := range pieces {
		for line := range strings.Lines(string(piece)) {
			withdrawn, err := gone.has([]byte(line))
			row, perr := parseRow([]byte(line))
			if err := errors.Join(err, perr); err != nil {
				c.problem(l.Object, err.Error())
				return
			}
			if !withdrawn {
				sum = add(sum, *row)
			}
		}
	}
	if have != sum {
		c.problem(KeyPrefix, fmt.Sprintf("entry %d, of %s in %s: has %d rows (sum %016x), the segment %d (sum %016x)", l.Seq, l.Host, l.Object, have.Rows, have.Hash, sum.Rows, sum.Hash))
	}
}
