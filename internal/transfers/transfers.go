// Package transfers keeps the log of uploads by robots and downloads by accounts, with their bytes
// and times. Its totals are a table of transfer rates like that of the service of 1999 (paper 001,
// table 10).
package transfers

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"sheaf/internal/db"
)

// Directions of a transfer, as the service's users see them.
const (
	Upload   = "upload"
	Download = "download"
)

// Redirect is the protocol of downloads for which clients were sent to the object store. Such a
// transfer has the size of the whole file, and no time.
const Redirect = "redirect"

// Outcomes of a transfer.
const (
	OK      = "ok"
	Aborted = "aborted"
)

// Transfer is one upload or download, complete or aborted.
type Transfer struct {
	ID        int64         // set by Record; ascending
	At        time.Time     // start
	Direction string        // Upload or Download
	Protocol  string        // "ftp", "http" or Redirect
	Who       string        // robot or account
	Name      string        // batch or path
	Bytes     int64         // moved in this transfer; may be less than the file's size
	Took      time.Duration // stored in whole microseconds
	Outcome   string        // OK or Aborted
	Remote    string        // the other side's address

	// Acknowledged says that Bytes and Took count the bytes that the client has acknowledged by
	// TCP. Otherwise they count the bytes that the service read or wrote: for uploads, and for
	// downloads over TLS, by HTTP/2 or through a proxy.
	Acknowledged bool

	// Count is the number of transfers in the row: small downloads that one client repeats within a
	// minute share a row, with their bytes and times added up. 0 means 1.
	Count int64

	// Unknown says that the client has no account. It is not stored. The rows of such clients are
	// bounded: see repeats.
	Unknown bool
}

// Log is the log in the control database. It may be used concurrently.
type Log struct {
	db      *sql.DB
	repeats repeats
}

// New returns the log in db, which internal/db has opened.
func New(db *sql.DB) *Log { return &Log{db: db} }

// Record adds a transfer. It is durable when Record returns nil.
func (l *Log) Record(ctx context.Context, t Transfer) error {
	if err := l.RecordAll(ctx, []Transfer{t}); err != nil {
		return fmt.Errorf("transfers: record %s of %s by %s: %w", t.Direction, t.Name, t.Who, err)
	}
	return nil
}

// RecordAll adds transfers, at most some hundreds, in one commit. They are durable when RecordAll
// returns nil.
func (l *Log) RecordAll(ctx context.Context, list []Transfer) error {
	if len(list) == 0 {
		return nil
	}
	rows, places, more := l.repeats.split(list)
	args := make([]any, 0, 11*len(rows))
	for _, t := range rows {
		args = append(args, db.Millis(t.At), t.Direction, t.Protocol, t.Who, t.Name, t.Bytes, t.Took.Microseconds(), t.Outcome, t.Remote, t.Acknowledged, t.Count)
	}
	var added []Transfer
	err := db.Transact(ctx, l.db, nil, func(tx *sql.Tx) (err error) {
		for _, t := range more {
			_, err := tx.ExecContext(ctx, `UPDATE transfers SET count = count + ?, bytes = bytes + ?, took_us = took_us + ? WHERE id = ?`,
				t.Count, t.Bytes, t.Took.Microseconds(), t.ID)
			if err != nil {
				return err
			}
		}
		if len(rows) > 0 {
			added, err = db.List(ctx, tx, scan, `
				INSERT INTO transfers (at, direction, protocol, who, name, bytes, took_us, outcome, remote, acknowledged, count)
				VALUES `+db.Tuples(len(rows), 11)+` RETURNING `+columns, args...)
			if err != nil {
				return err
			}
		}
		return addSums(ctx, tx, list)
	})
	if err != nil {
		return fmt.Errorf("transfers: record %d: %w", len(list), err)
	}
	l.repeats.remember(added, rows, places)
	return nil
}

const columns = `id, at, direction, protocol, who, name, bytes, took_us, outcome, remote, acknowledged, count`

func scan(rows *sql.Rows, t *Transfer) error {
	var took int64
	err := rows.Scan(&t.ID, db.At(&t.At), &t.Direction, &t.Protocol, &t.Who, &t.Name, &t.Bytes, &took, &t.Outcome, &t.Remote, &t.Acknowledged, &t.Count)
	t.Took = time.Duration(took) * time.Microsecond
	return err
}

// Filter selects transfers. The zero value selects all.
type Filter struct {
	Who       string
	Direction string
	Since     time.Time // started at or after
	Before    int64     // only smaller IDs, to page towards older transfers
	Limit     int       // 0: no limit; Totals ignores it
}

func (f Filter) where() (string, []any) {
	terms, args := []string{"TRUE"}, []any(nil)
	add := func(term string, arg any) {
		terms, args = append(terms, term), append(args, arg)
	}
	if f.Who != "" {
		add("who = ?", f.Who)
	}
	if f.Direction != "" {
		add("direction = ?", f.Direction)
	}
	if !f.Since.IsZero() {
		add("at >= ?", db.Millis(f.Since))
	}
	if f.Before > 0 {
		add("id < ?", f.Before)
	}
	return strings.Join(terms, " AND "), args
}

// List returns the selected transfers, newest first.
func (l *Log) List(ctx context.Context, f Filter) ([]Transfer, error) {
	where, args := f.where()
	list, err := db.List(ctx, l.db, scan, `SELECT `+columns+` FROM transfers WHERE `+where+` ORDER BY id DESC LIMIT ?`, append(args, cmp.Or(f.Limit, math.MaxInt64))...)
	if err != nil {
		return nil, fmt.Errorf("transfers: list: %w", err)
	}
	return list, nil
}

// TotalLine sums up the transfers of one robot or account by one protocol. It includes the bytes of
// aborted transfers.
type TotalLine struct {
	Who       string  `json:"who"`
	Direction string  `json:"direction"`
	Protocol  string  `json:"protocol"`
	Count     int64   `json:"count"`
	Bytes     int64   `json:"bytes"`
	Seconds   float64 `json:"seconds"`
	Rate      float64 `json:"bytes_per_second"` // mean rate; 0 if no time is known
}

// rateOf returns the mean rate of a transfer in bytes per second, or 0 if no time is known.
func rateOf(bytes int64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(bytes) / seconds
}

// Totals sums up the selected transfers by consumer or robot, direction and protocol. Uploads come
// first, then the lines with most bytes.
func (l *Log) Totals(ctx context.Context, f Filter) ([]TotalLine, error) {
	where, args := f.where()
	totals, err := db.List(ctx, l.db, func(rows *sql.Rows, t *TotalLine) error {
		var took int64
		err := rows.Scan(&t.Who, &t.Direction, &t.Protocol, &t.Count, &t.Bytes, &took)
		t.Seconds = (time.Duration(took) * time.Microsecond).Seconds()
		t.Rate = rateOf(t.Bytes, t.Seconds)
		return err
	}, `SELECT who, direction, protocol, SUM(count), SUM(bytes), SUM(took_us)
		FROM transfers WHERE `+where+`
		GROUP BY who, direction, protocol
		ORDER BY direction DESC, SUM(bytes) DESC, who, protocol`, args...)
	if err != nil {
		return nil, fmt.Errorf("transfers: totals: %w", err)
	}
	return totals, nil
}

// Recorder records transfers when they have ended, complete or aborted. It may be used
// concurrently. Log and Buffer are Recorders.
type Recorder interface {
	Record(ctx context.Context, t Transfer) error
}

// Running has the transfers that are under way in this process. The zero value is ready to use; a
// nil Running ignores all transfers. Its methods may be called from many goroutines at once.
type Running struct {
	mu  sync.Mutex // guards all
	all map[*running]struct{}
}

type running struct {
	Transfer
	moved func() int64
}

// Begin adds a transfer until ended is called. List calls moved to get the number of bytes so far.
func (r *Running) Begin(t Transfer, moved func() int64) (ended func()) {
	if r == nil {
		return func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = make(map[*running]struct{})
	}
	one := &running{t, moved}
	r.all[one] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.all, one)
	}
}

// List returns the transfers with f's name and direction, longest first, with their bytes and time
// so far. They have no ID and no outcome yet. It ignores f's other fields.
func (r *Running) List(f Filter) []Transfer {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	picked := make([]*running, 0, len(r.all))
	for one := range r.all {
		if (f.Who == "" || one.Who == f.Who) && (f.Direction == "" || one.Direction == f.Direction) {
			picked = append(picked, one)
		}
	}
	r.mu.Unlock()
	list := make([]Transfer, 0, len(picked))
	for _, one := range picked {
		t := one.Transfer
		t.Bytes, t.Took = one.moved(), time.Since(t.At)
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b Transfer) int { return a.At.Compare(b.At) })
	return list
}
