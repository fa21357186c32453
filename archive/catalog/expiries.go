package catalog

import (
	"context"
	"fmt"
)

// Expiry says that an entry is no longer kept: its edition is old enough, and no entry that is kept
// needs it. An expiry is never undone.
type Expiry struct {
	Host    string `json:"host"`
	Edition string `json:"edition"`
	Entry   int64  `json:"line"` // the entry's sequence number
}

func (e Expiry) key() string { return tableExpired + Key(e.Host) + " " + seqKey(e.Entry) }

// expiryOfRow decodes a row of the table of expiries and checks it against its key.
func expiryOfRow(row []byte) (Expiry, error) {
	var e Expiry
	if err := rowValue(row, &e); err != nil {
		return e, err
	}
	if want := e.key(); string(rowKey(row)) != want {
		return e, fmt.Errorf("row %q holds the expiry %q: %w", rowKey(row), want, ErrCorrupt)
	}
	return e, nil
}

// expiries tells which entries have expired. Ask about entries in the order of their rows, and not
// concurrently. If no entry has expired, it costs nothing.
type expiries struct {
	table *table // nil: no entry has expired
	begun bool
}

func openExpiries(runs []*run) *expiries {
	var with []*run
	for _, r := range runs {
		if r.Expired > 0 {
			with = append(with, r)
		}
	}
	if len(with) == 0 {
		return &expiries{}
	}
	return &expiries{table: openTable(with)}
}

// hold reports whether the entry of a row has expired.
func (e *expiries) hold(ctx context.Context, row []byte) (bool, error) {
	if e.table == nil {
		return false, nil
	}
	return e.under(ctx, tableExpired+string(rowKey(row)[len(tableHost):])+" ")
}

// of reports whether any entry of the host has expired. It replaces hold for callers that ask host
// by host, in the order of the hosts' keys.
func (e *expiries) of(ctx context.Context, host string) (bool, error) {
	if e.table == nil {
		return false, nil
	}
	return e.under(ctx, tableExpired+host+" ")
}

// under moves forward to the rows that begin with key, and reports whether there are any.
func (e *expiries) under(ctx context.Context, key string) (bool, error) {
	step := e.table.advance
	if !e.begun {
		step, e.begun = e.table.seek, true
	}
	err := step(ctx, key)
	return e.table.under(key), err
}
