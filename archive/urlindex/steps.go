package urlindex

import (
	"context"
	"errors"
	"slices"

	"sheaf/archive/catalog"
	"sheaf/archive/sortedrun"

	"golang.org/x/sync/semaphore"
)

// job is one step of a builder, for one version of the catalog.
type job struct {
	builder *Builder
	snap    *catalog.Snapshot
	prev    *entry
	gone    *withdrawn // tells which rows to leave out of new runs
}

// merge replaces several runs by one run, in a new state.
func (j *job) merge(ctx context.Context, runs []runRef) error {
	next := j.prev.state
	next.Kind = kindMerge
	next.Runs = slices.DeleteFunc(slices.Clone(next.Runs), func(r runRef) bool {
		return slices.ContainsFunc(runs, func(o runRef) bool { return o.Name == r.Name })
	})
	ref, err := j.rewrite(ctx, kindMerge, runs[0].Level+1, runs...)
	if err != nil {
		return err
	}
	if ref.Rows > 0 {
		next.Runs = append(next.Runs, ref)
	}
	_, err = j.builder.states.append(ctx, j.prev, next)
	return err
}

// follow brings the index up to date with the catalog. It makes a run of new entries, up to a
// limit, and rewrites runs with erased records. It appends a state for each of the two.
func (j *job) follow(ctx context.Context) (err error) {
	opt := &j.builder.opt
	c := &newRows{job: j, sorter: sortedrun.NewSorter(opt.TempDir, opt.SortMemory, compareLines), memory: semaphore.NewWeighted(indexMemory)}
	defer func() { err = errors.Join(err, c.sorter.Close()) }()
	through, erased, err := c.collect(ctx)
	if err != nil {
		return err
	}
	at := j.prev
	if through > at.Through {
		if at, err = j.build(ctx, c, through, len(erased) == 0); err != nil {
			return err
		}
	}
	if at.Swept == through {
		return nil
	}
	return j.sweep(ctx, at, through, erased)
}

// build stores the rows as a run and appends the state that names the run. swept says that nothing
// was erased, so that no sweep needs to follow.
func (j *job) build(ctx context.Context, rows *newRows, through int64, swept bool) (*entry, error) {
	next := j.prev.state
	next.Kind, next.Through, next.Holes = kindBuild, through, rows.holes
	if swept {
		next.Swept = through
	}
	var err error
	next.Version = j.snap.Version()
	if next.Record, err = catalog.RecordDigest(ctx, j.builder.states.Store, next.Version); err != nil {
		return nil, err
	}
	sorted, err := rows.sorter.Rows(ctx)
	if err != nil {
		return nil, err
	}
	ref, err := j.makeRun(ctx, kindBuild, 0, sorted)
	if err != nil {
		return nil, err
	}
	if ref.Rows > 0 {
		next.Runs = append(slices.Clone(next.Runs), ref)
	}
	return j.builder.states.append(ctx, j.prev, next)
}

// sweep rewrites the runs that hold rows of erased records, and appends a state whose Swept is
// through.
func (j *job) sweep(ctx context.Context, at *entry, through int64, erased []catalog.Tombstone) error {
	next := at.state
	next.Kind, next.Swept = kindSweep, through
	next.Runs = nil
	for _, r := range at.Runs {
		holds, err := j.holds(ctx, r, erased)
		if err != nil {
			return err
		}
		if holds {
			if r, err = j.rewrite(ctx, kindSweep, r.Level, r); err != nil {
				return err
			}
		}
		if r.Rows > 0 {
			next.Runs = append(next.Runs, r)
		}
	}
	_, err := j.builder.states.append(ctx, at, next)
	return err
}

// holds reports whether a run has rows of erased records.
func (j *job) holds(ctx context.Context, ref runRef, erased []catalog.Tombstone) (bool, error) {
	if len(erased) == 0 {
		return false, nil
	}
	r, err := openRun(ctx, j.builder.states.Store, newCache(defaultCache/8), ref)
	if err != nil {
		return false, err
	}
	looked := make(map[string]bool)
	for _, t := range erased {
		key := keyOfHost(t.Host)
		if looked[key] {
			continue
		}
		looked[key] = true
		c, err := r.begin(ctx, Prefix(key))
		for ; err == nil && c.Row() != nil; err = c.Next(ctx) {
			gone, err := j.gone.has(c.Row())
			if gone || err != nil {
				return gone, err
			}
		}
		if err != nil {
			return false, damaged(err)
		}
	}
	return false, nil
}
