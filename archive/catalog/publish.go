package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Publish publishes the entries as one version and one edition. When it returns nil, they are
// published durably, for every reader that pins from then on.
//
// Each batch is published once, however often Publish is called. Publish leaves out batches that
// are published already, with their entries. If no batch is left, it returns the version that
// published the last of the batches. So if Publish fails, for whatever reason, call it again with
// the same batches. Delete no object of these batches until Publish succeeds or returns
// ErrBatchConflict.
func (c *Catalog) Publish(ctx context.Context, p Publication) (v Version, err error) {
	if v, err = c.publish(ctx, p); err != nil {
		return Version{}, fmt.Errorf("publish: %w", err)
	}
	return v, nil
}

func (c *Catalog) publish(ctx context.Context, p Publication) (v Version, err error) {
	if err := p.check(); err != nil {
		return v, err
	}
	draft := &draft{sorter: c.newSorter(), totals: make(map[string]*batchRow)}
	defer func() { err = errors.Join(err, draft.sorter.Close()) }()
	if err := draft.take(p); err != nil {
		return v, err
	}
	_, err = c.append(ctx, func(head *state) (*logRecord, error) {
		snapshot := &Snapshot{catalog: c, state: head}
		rest, done, err := snapshot.unpublished(ctx, p.Batches)
		if err != nil {
			return nil, err
		}
		if len(rest) == 0 {
			v = done
			return nil, nil
		}
		if p.Token != 0 && p.Token < head.Token {
			return nil, fmt.Errorf("token %d, the log has %d: %w", p.Token, head.Token, ErrFenced)
		}
		for {
			now := c.after(head)
			today := now.In(c.opt.Location).Format(dayForm)
			if v, err = snapshot.next(ctx, p.Day, today, now); err != nil {
				return nil, err
			}
			r, err := c.composeEdition(ctx, head, draft, rest, v, p.Token)
			// The day may have ended while a large run was built. Then callers of Complete may
			// already rely on the day being complete.
			if err != nil || c.after(head).In(c.opt.Location).Format(dayForm) <= today {
				return r, err
			}
		}
	})
	return v, err
}

// next returns the version after s, published at now. Its edition's name begins with day or, if day
// is empty, with the day that Snapshot.day returns for today.
func (s *Snapshot) next(ctx context.Context, day, today string, now time.Time) (v Version, err error) {
	if day == "" {
		if day, err = s.day(ctx, today); err != nil {
			return v, err
		}
	}
	edition, err := s.nextEdition(ctx, day)
	return Version{N: s.state.N + 1, Edition: edition, Published: now}, err
}

// dayForm is the layout of the day in an edition's name.
const dayForm = "20060102"

func (p Publication) check() error {
	if p.Day != "" {
		if d, err := time.Parse(dayForm, p.Day); err != nil || d.Format(dayForm) != p.Day {
			return fmt.Errorf("day %q is not yyyymmdd", p.Day)
		}
	}
	if len(p.Batches) == 0 {
		return errors.New("no batches: a publication is known by its batches")
	}
	seen := make(map[string]bool, len(p.Batches))
	for _, b := range p.Batches {
		if err := checkKeyText("batch ID", b.ID); err != nil {
			return err
		}
		if seen[b.ID] {
			return fmt.Errorf("batch %s is given twice", b.ID)
		}
		seen[b.ID] = true
	}
	return nil
}

// composeEdition stores version v's run, and returns v's record.
func (c *Catalog) composeEdition(ctx context.Context, head *state, d *draft, batches []Batch, v Version, token int64) (*logRecord, error) {
	nextSeq := head.NextSeq
	run, err := c.buildRun(ctx, kindPublish, v.N, func(w *runWriter) error {
		for _, b := range batches {
			total := *d.totals[b.ID]
			total.Version = v
			if err := w.put(tableBatch+b.ID, total); err != nil {
				return err
			}
		}
		edition := Edition{Name: v.Edition, Version: v.N, Published: v.Published}
		var err error
		if nextSeq, err = d.write(ctx, w, batches, v, nextSeq, &edition); err != nil {
			return err
		}
		return w.put(tableEdition+v.Edition, edition)
	})
	if err != nil {
		return nil, err
	}
	return &logRecord{
		Kind: kindPublish, At: v.Published, Edition: v.Edition, Token: max(token, head.Token),
		Batches: batches, Added: run, Runs: addRun(head.Runs, run), NextSeq: nextSeq,
	}, nil
}
