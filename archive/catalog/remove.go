package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Remove takes down what the tombstones cover: what is published, and what will
// be. When it returns nil every snapshot of this Catalog obeys, older ones too;
// other nodes obey from their next Pin on. Tombstones that are recorded already
// are not recorded again, so Remove can be repeated.
func (c *Catalog) Remove(ctx context.Context, tombstones ...Tombstone) (Version, error) {
	for _, t := range tombstones {
		if t.Host == "" {
			return Version{}, errors.New("remove: tombstone without host")
		}
		if err := checkKeyText("host", Key(t.Host)); err != nil {
			return Version{}, fmt.Errorf("remove: %w", err)
		}
	}
	head, err := c.append(ctx, func(head *state) (*record, error) {
		fresh := slices.DeleteFunc(slices.Clone(tombstones), head.recorded)
		if len(fresh) == 0 {
			return nil, nil
		}
		return c.composeRemoval(ctx, head, fresh)
	})
	if err != nil {
		return Version{}, fmt.Errorf("remove: %w", err)
	}
	return head.version(), nil
}

// recorded reports whether a tombstone that covers the same is in force.
func (s *state) recorded(t Tombstone) bool {
	return slices.ContainsFunc(s.tombstones[t.Host], func(o Tombstone) bool {
		return o.Edition == t.Edition && o.URLPrefix == t.URLPrefix
	})
}

func (c *Catalog) composeRemoval(ctx context.Context, head *state, tombstones []Tombstone) (*record, error) {
	now := c.now()
	sorter := newSorter(c.opt.TempDir, c.opt.SortMemory)
	for i, t := range tombstones {
		t.At = now
		row, err := appendRow(nil, tableTombstone+Key(t.Host)+" "+seqKey(head.NextSeq+int64(i)), t)
		if err != nil {
			return nil, err
		}
		if err := sorter.add(row); err != nil {
			return nil, err
		}
	}
	rows, err := sorter.rows(ctx)
	if err != nil {
		return nil, errors.Join(err, sorter.close())
	}
	run, err := c.buildRun(ctx, kindRemove, head.N+1, func(w *runWriter) error { return w.addAll(ctx, rows) })
	if err := errors.Join(err, sorter.close()); err != nil {
		return nil, err
	}
	return &record{
		Kind: kindRemove, At: now, Token: head.Token,
		Added: run, Runs: addRun(head.Runs, run), NextSeq: head.NextSeq + int64(len(tombstones)),
	}, nil
}
