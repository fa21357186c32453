package upkeep

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/db"
)

// Scrub is a Scrubber's progress and its findings.
type Scrub struct {
	Began time.Time `json:"began"`          // when the round under way began
	Place int64     `json:"place"`          // sequence number of the last segment that the round has verified
	Last  int64     `json:"last"`           // sequence number of the store's last segment
	Ended time.Time `json:"ended,omitzero"` // end of the last round that went through the whole store

	Bytes       int64 `json:"bytes"`        // of segments that were verified, in the store and in the copy
	Damaged     int64 `json:"damaged"`      // segments and others that the store lost or damaged
	CopyDamaged int64 `json:"copy_damaged"` // segments and others found damaged in the copy
	Healed      int64 `json:"healed"`       // objects that were replaced by the right ones, in the store or in the copy

	// Lost names the segments that are damaged or missing and could not be healed, as "host in
	// object", sorted: the first thousand.
	Lost []string `json:"lost"`

	Checked  time.Time `json:"checked,omitzero"` // when the catalog was last compared with what is stored
	Problems int64     `json:"problems"`         // problems that this comparison found and nothing has healed

	Copied time.Time `json:"copied,omitzero"` // when the copy last had all that is published
}

// CopySince returns the time when the copy last had everything that is published or, if it never
// had, Began.
func (s *Scrub) CopySince() time.Time {
	if s.Copied.IsZero() {
		return s.Began
	}
	return s.Copied
}

// Ratio returns the part of the store that the round under way has verified, from 0 to 1.
func (s *Scrub) Ratio() float64 {
	if s.Last == 0 {
		return 0
	}
	return float64(s.Place) / float64(s.Last)
}

// lose adds a lost segment to Lost, or removes a segment that is not lost any more.
func (s *Scrub) lose(e catalog.SegmentEntry, lost bool) {
	key := e.Host + " in " + e.Object
	at, found := slices.BinarySearch(s.Lost, key)
	switch {
	case lost && !found && len(s.Lost) < 1000:
		s.Lost = slices.Insert(s.Lost, at, key)
	case !lost && found:
		s.Lost = slices.Delete(s.Lost, at, at+1)
	}
}

// ReadScrub returns the last state that the Scrubber of any process has stored.
func ReadScrub(ctx context.Context, d *sql.DB) (s Scrub, err error) {
	var text string
	err = d.QueryRowContext(ctx, `SELECT state FROM scrub`).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &s)
	}
	if err != nil {
		return s, fmt.Errorf("state of the scrub: %w", err)
	}
	return s, nil
}

func (s *Scrub) write(ctx context.Context, d *sql.DB) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return db.Transact(ctx, d, nil, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO scrub (id, state) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET state = excluded.state`, string(text))
		return err
	})
}
