package roster

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"sheaf/internal/botauth"
	"sheaf/internal/db"
	"sheaf/internal/wire"
)

// NoteSigning notes by which keys a robot signs its requests; none: it does not sign. A proof that
// is not one for a directory at authority is left out, and reported.
func (r *Roster) NoteSigning(ctx context.Context, robot string, proofs []wire.SigningKey, authority string, now time.Time) (refused int, err error) {
	text := ""
	var good []wire.SigningKey
	for _, p := range proofs {
		if botauth.Good(&p, authority, now) {
			good = append(good, p)
		}
	}
	if len(good) > 0 {
		line, err := json.Marshal(good)
		if err != nil {
			return 0, err
		}
		text = string(line)
	}
	if _, err := r.db.ExecContext(ctx, `UPDATE robots SET signing = ? WHERE name = ? AND secret_hash IS NOT NULL AND signing <> ?`, text, robot, text); err != nil {
		return 0, fmt.Errorf("robot %s: signing keys: %w", robot, err)
	}
	return len(proofs) - len(good), nil
}

// SigningKeys returns the keys by which robots sign their requests now, and those that they take
// next, by robot. Keys of robots that were revoked, or that were not heard of for a day, are not
// among them.
func (r *Roster) SigningKeys(ctx context.Context, authority string, now time.Time) ([]wire.SigningKey, error) {
	var all []wire.SigningKey
	lines, err := db.List(ctx, r.db, func(rows *sql.Rows, line *string) error { return rows.Scan(line) },
		`SELECT signing FROM robots WHERE signing <> '' AND secret_hash IS NOT NULL ORDER BY name`)
	for _, line := range lines {
		var proofs []wire.SigningKey
		if err := json.Unmarshal([]byte(line), &proofs); err != nil {
			return nil, fmt.Errorf("signing keys: %w", err)
		}
		for _, p := range proofs {
			if botauth.Good(&p, authority, now) && now.Before(p.Ends) {
				all = append(all, p)
			}
		}
	}
	return all, err
}
