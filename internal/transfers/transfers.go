// Package transfers keeps the log of what came in and what went out: every upload
// by a robot and every download by an account, with its bytes and its time. Its
// totals are the table of transfer rates that the 1999 service was measured by
// (paper 001, table 10).
package transfers

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"
	"time"

	"sheaf/internal/db"
)

// Directions of a transfer, as seen from the service's users.
const (
	Upload   = "upload"
	Download = "download"
)

// Outcomes of a transfer.
const (
	OK      = "ok"
	Aborted = "aborted"
)

// Transfer is one upload or download, whole or broken off.
type Transfer struct {
	ID        int64         // given by Record; grows
	At        time.Time     // start
	Direction string        // Upload or Download
	Protocol  string        // "ftp" or "http"
	Who       string        // robot or account
	Name      string        // batch or path
	Bytes     int64         // moved in this transfer, not the file's size
	Took      time.Duration // kept in whole microseconds
	Outcome   string        // OK or Aborted
	Remote    string        // the other side's address

	// Acknowledged says that Bytes and Took are by what the client has acknowledged by TCP.
	// Otherwise the service measured what it wrote or read itself: of uploads, and of downloads
	// under TLS, by HTTP/2 and through a proxy.
	Acknowledged bool
}

// Log records transfers in the control database. It may be used by many
// goroutines at once.
type Log struct{ db *sql.DB }

// New gives the log in db, which internal/db has opened.
func New(db *sql.DB) *Log { return &Log{db} }

// Record adds t. It is durable when nil is returned.
func (l *Log) Record(ctx context.Context, t Transfer) error {
	if err := l.RecordAll(ctx, []Transfer{t}); err != nil {
		return fmt.Errorf("transfers: record %s of %s by %s: %w", t.Direction, t.Name, t.Who, err)
	}
	return nil
}

// RecordAll adds transfers, some hundreds at the most, in one commit. They are durable
// when nil is returned.
func (l *Log) RecordAll(ctx context.Context, list []Transfer) error {
	if len(list) == 0 {
		return nil
	}
	const row = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	args := make([]any, 0, 10*len(list))
	for _, t := range list {
		args = append(args, db.Millis(t.At), t.Direction, t.Protocol, t.Who, t.Name, t.Bytes, t.Took.Microseconds(), t.Outcome, t.Remote, t.acknowledged())
	}
	err := db.Transact(ctx, l.db, nil, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO transfers (at, direction, protocol, who, name, bytes, took_us, outcome, remote, acknowledged)
			VALUES `+row+strings.Repeat(", "+row, len(list)-1), args...)
		if err != nil {
			return err
		}
		return addSums(ctx, tx, list)
	})
	if err != nil {
		return fmt.Errorf("transfers: record %d: %w", len(list), err)
	}
	return nil
}

// acknowledged is how the database has it.
func (t *Transfer) acknowledged() int {
	if t.Acknowledged {
		return 1
	}
	return 0
}

// Filter picks transfers; its zero value picks all.
type Filter struct {
	Who       string
	Direction string
	Since     time.Time // started at or after
	Before    int64     // ID below; to page towards older ones
	Limit     int       // 0: no limit. Totals does not heed it
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

// List gives the transfers that f picks, the newest first.
func (l *Log) List(ctx context.Context, f Filter) ([]Transfer, error) {
	where, args := f.where()
	limit := math.MaxInt64
	if f.Limit > 0 {
		limit = f.Limit
	}
	list, err := db.List(ctx, l.db, func(rows *sql.Rows, t *Transfer) error {
		var took int64
		err := rows.Scan(&t.ID, db.At(&t.At), &t.Direction, &t.Protocol, &t.Who, &t.Name, &t.Bytes, &took, &t.Outcome, &t.Remote, &t.Acknowledged)
		t.Took = time.Duration(took) * time.Microsecond
		return err
	}, `
		SELECT id, at, direction, protocol, who, name, bytes, took_us, outcome, remote, acknowledged
		FROM transfers WHERE `+where+` ORDER BY id DESC LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, fmt.Errorf("transfers: list: %w", err)
	}
	return list, nil
}

// Total sums up the transfers of one robot or account in one way. Broken ones are
// in it: their bytes were moved too.
type Total struct {
	Who       string
	Direction string
	Protocol  string
	Count     int64
	Bytes     int64
	Took      time.Duration
}

// Rate is the mean rate in bytes per second; 0 where no time is known.
func (t Total) Rate() float64 {
	if t.Took <= 0 {
		return 0
	}
	return float64(t.Bytes) / t.Took.Seconds()
}

// Totals sums up what f picks, uploads first, the most bytes first.
func (l *Log) Totals(ctx context.Context, f Filter) ([]Total, error) {
	where, args := f.where()
	totals, err := db.List(ctx, l.db, func(rows *sql.Rows, t *Total) error {
		var took int64
		err := rows.Scan(&t.Who, &t.Direction, &t.Protocol, &t.Count, &t.Bytes, &took)
		t.Took = time.Duration(took) * time.Microsecond
		return err
	}, `
		SELECT who, direction, protocol, COUNT(*), SUM(bytes), SUM(took_us)
		FROM transfers WHERE `+where+`
		GROUP BY who, direction, protocol
		ORDER BY direction DESC, SUM(bytes) DESC, who, protocol`, args...)
	if err != nil {
		return nil, fmt.Errorf("transfers: totals: %w", err)
	}
	return totals, nil
}

// Recorder is told of every transfer that has ended, whole or broken off. It may be called
// concurrently. Log and Buffer are Recorders.
type Recorder interface {
	Record(ctx context.Context, t Transfer) error
}
