package catalog

import (
	"context"

	"sheaf/archive/sortedrun"
)

// expire records expiries, given as rows, in one version. It leaves out expiries that another
// collection has recorded meanwhile.
func (c *Catalog) expire(ctx context.Context, expired *sortedrun.Sorter) error {
	_, err := c.append(ctx, func(head *state) (*logRecord, error) {
		rows := int64(0)
		err := c.unexpired(ctx, head, expired, func([]byte) error { rows++; return nil })
		if err != nil || rows == 0 {
			return nil, err
		}
		return c.compose(ctx, head, kindExpire, c.after(head), rows, func(w *runWriter) error {
			return c.unexpired(ctx, head, expired, w.add)
		})
	})
	return err
}

// unexpired calls give with each row of expired that the head does not have.
func (c *Catalog) unexpired(ctx context.Context, head *state, expired *sortedrun.Sorter, give func(row []byte) error) error {
	rows, err := expired.Rows(ctx)
	if err != nil {
		return err
	}
	for known := openExpiries(head.runs); rows.Row() != nil; {
		there, err := known.hold(ctx, rows.Row())
		if err != nil {
			return err
		}
		if !there {
			if err := give(rows.Row()); err != nil {
				return err
			}
		}
		if err := rows.Next(ctx); err != nil {
			return err
		}
	}
	return nil
}
