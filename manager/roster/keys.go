package roster

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/botauth"
	"sheaf/internal/db"
	"sheaf/internal/servicekey"
	"sheaf/internal/wire"
)

// keptKeys is how many of a robot's ended keys are kept.
const keptKeys = 2

// NoteSigning stores the keys by which a robot signs its requests. A robot without proofs does not
// sign. It leaves out proofs that are not good for a directory at authority, and counts them in
// refused. The latest keptKeys earlier keys stay for one more botauth.Period, as ended.
func (r *Roster) NoteSigning(ctx context.Context, robot string, proofs []wire.SigningKey, authority string, now time.Time) (refused int, err error) {
	list := slices.DeleteFunc(slices.Clone(proofs), func(p wire.SigningKey) bool { return !botauth.Good(&p, authority, now) })
	refused = len(proofs) - len(list)
	var had string
	switch err := r.db.QueryRowContext(ctx, `SELECT signing FROM robots WHERE name = ? AND secret_hash IS NOT NULL`, robot).Scan(&had); {
	case errors.Is(err, sql.ErrNoRows):
		return refused, nil
	case err != nil:
		return 0, fmt.Errorf("robot %s: signing keys: %w", robot, err)
	}
	before, err := parseKeys(had)
	if err != nil {
		return 0, err
	}
	slices.SortStableFunc(before, func(a, b wire.SigningKey) int { return b.Ends.Compare(a.Ends) })
	kept := 0
	for _, p := range before {
		if now.Before(p.Begins) || now.Sub(p.Ends) > botauth.Period || slices.ContainsFunc(list, func(l wire.SigningKey) bool { return bytes.Equal(l.Key, p.Key) }) {
			continue
		}
		if kept++; kept > keptKeys {
			break
		}
		p.Expires = 0 // it is in the directory no more
		if now.Before(p.Ends) {
			p.Ends = now
		}
		list = append(list, p)
	}
	text := ""
	if len(list) > 0 {
		line, err := json.Marshal(list)
		if err != nil {
			return 0, err
		}
		text = string(line)
	}
	if text == had {
		return refused, nil
	}
	if _, err := r.db.ExecContext(ctx, `UPDATE robots SET signing = ? WHERE name = ? AND secret_hash IS NOT NULL AND signing = ?`, text, robot, had); err != nil {
		return 0, fmt.Errorf("robot %s: signing keys: %w", robot, err)
	}
	return refused, nil
}

func parseKeys(text string) (list []wire.SigningKey, err error) {
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("signing keys: %w", err)
	}
	return list, nil
}

// KeyOf returns the robot that has or lately had the key with an ID, and the key. robot is empty if
// there is no such robot; revoked robots do not count.
func (r *Roster) KeyOf(ctx context.Context, id string) (robot string, key wire.SigningKey, err error) {
	err = db.Each(ctx, r.db, func(rows *sql.Rows) error {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return err
		}
		list, err := parseKeys(text)
		for _, p := range list {
			if botauth.KeyID(p.Key) == id {
				robot, key = name, p
			}
		}
		return err
	}, `SELECT name, signing FROM robots WHERE signing <> '' AND secret_hash IS NOT NULL`)
	return robot, key, err
}

// SigningKeys returns the keys by which robots sign their requests now, and the keys that they take
// next, by robot. It leaves out keys of robots that were revoked, or that were not heard of for a
// day.
func (r *Roster) SigningKeys(ctx context.Context, authority string, now time.Time) ([]wire.SigningKey, error) {
	var all []wire.SigningKey
	lines, err := db.Column[string](ctx, r.db,
		`SELECT signing FROM robots WHERE signing <> '' AND secret_hash IS NOT NULL ORDER BY name`)
	for _, line := range lines {
		proofs, err := parseKeys(line)
		if err != nil {
			return nil, err
		}
		for _, p := range proofs {
			if botauth.Good(&p, authority, now) && now.Before(p.Ends) {
				all = append(all, p)
			}
		}
	}
	return all, err
}

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
