package roster

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/servicekey"
	"sheaf/internal/wire"
)

// ServiceKeys returns the statements that lead from a key of the service to its newest one, and
// notes that the robot knows that key.
func (r *Roster) ServiceKeys(ctx context.Context, robot string, known []byte) ([]wire.KeyStatement, error) {
	keys, err := servicekey.List(ctx, r.db)
	if err != nil {
		return nil, err
	}
	if _, err := r.db.ExecContext(ctx, `UPDATE robots SET service_key = ?, key_asked = ? WHERE name = ?`, known, db.Millis(time.Now()), robot); err != nil {
		return nil, fmt.Errorf("robot %s: service's key: %w", robot, err)
	}
	return servicekey.Find(keys, known).Chain, nil
}

// KeyTrouble is a robot that does not know the newest of the service's keys.
type KeyTrouble struct {
	Robot string `json:"robot"`
	Why   string `json:"why"` // and what to do
}

// KeyTroubles returns the robots that do not know the newest of the service's keys, by name.
func (r *Roster) KeyTroubles(ctx context.Context) ([]KeyTrouble, error) {
	keys, err := servicekey.List(ctx, r.db)
	if err != nil {
		return nil, err
	}
	troubles := []KeyTrouble{}
	err = db.Each(ctx, r.db, func(rows *sql.Rows) error {
		var name string
		var known robotKey
		if err := rows.Scan(&name, &known.public, db.At(&known.asked)); err != nil {
			return err
		}
		if why := known.trouble(keys); why != "" {
			troubles = append(troubles, KeyTrouble{name, why})
		}
		return nil
	}, `SELECT name, service_key, key_asked FROM robots WHERE secret_hash IS NOT NULL ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("robots' keys: %w", err)
	}
	return troubles, nil
}

// robotKey is what is known of the newest of the service's keys that a robot knows.
type robotKey struct {
	public []byte
	asked  time.Time // when the robot last asked for newer ones
}

// trouble says why a robot does not know the newest of the keys, and what to do about it; "" if it
// does.
func (k robotKey) trouble(keys []servicekey.Key) string {
	at := servicekey.Find(keys, k.public)
	switch {
	case at.Number == at.Newest, k.public == nil && len(keys) < 2:
		return ""
	case k.public == nil: // it joined at a process of an older program
		return fmt.Sprintf("is not known to have the service's key %d: upgrade its program, if it runs", at.Newest)
	case at.Number == 0:
		return "knows a key of the service that is not in the database, which may be an older backup: join it again"
	case !at.Whole:
		return fmt.Sprintf("knows the service's key %d, which was replaced as stolen: join it again", at.Number)
	case k.asked.IsZero():
		return fmt.Sprintf("knows the service's key %d of %d and has never asked for newer ones: upgrade its program, if it runs", at.Number, at.Newest)
	}
	return fmt.Sprintf("knows the service's key %d of %d, and asks for newer ones when it starts and at each poll", at.Number, at.Newest)
}
