package roster

import (
	"context"
	"database/sql"
	"fmt"

	"sheaf/internal/api"
	"sheaf/internal/db"
	"sheaf/internal/servicekey"
	"sheaf/internal/wire"
)

// ServiceKeys returns the statements that lead from the key known to the service's newest key. It
// records known as the newest key that the robot knows.
func (r *Roster) ServiceKeys(ctx context.Context, robot string, known []byte) ([]wire.KeyStatement, error) {
	keys, err := servicekey.List(ctx, r.db)
	if err != nil {
		return nil, err
	}
	if _, err := r.db.ExecContext(ctx, `UPDATE robots SET service_key = ? WHERE name = ?`, known, robot); err != nil {
		return nil, fmt.Errorf("robot %s: service's key: %w", robot, err)
	}
	return servicekey.Find(keys, known).Chain, nil
}

// KeyTroubles returns the robots that do not know the service's newest key, by name.
func (r *Roster) KeyTroubles(ctx context.Context) ([]api.KeyTrouble, error) {
	keys, err := servicekey.List(ctx, r.db)
	if err != nil {
		return nil, err
	}
	troubles := []api.KeyTrouble{}
	err = db.Each(ctx, r.db, func(rows *sql.Rows) error {
		var name string
		var known []byte
		if err := rows.Scan(&name, &known); err != nil {
			return err
		}
		if why := keyTrouble(keys, known); why != "" {
			troubles = append(troubles, api.KeyTrouble{Robot: name, Why: why})
		}
		return nil
	}, `SELECT name, service_key FROM robots WHERE secret_hash IS NOT NULL ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("robots' keys: %w", err)
	}
	return troubles, nil
}

// keyTrouble says why a robot does not know the service's newest key, and what to do about it. It
// returns "" if the robot knows it. known is the newest key that the robot knows.
func keyTrouble(keys []servicekey.Key, known []byte) string {
	at := servicekey.Find(keys, known)
	switch {
	case at.Number == at.Newest:
		return ""
	case at.Number == 0:
		return "knows a key of the service that is not in the database, which may be an older backup: join it again"
	case !at.Whole:
		return fmt.Sprintf("knows the service's key %d, which was replaced as stolen: join it again", at.Number)
	}
	return fmt.Sprintf("knows the service's key %d of %d, and asks for newer ones when it starts and at each poll", at.Number, at.Newest)
}
