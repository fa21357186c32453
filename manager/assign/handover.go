package assign

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
)

// HandoverLife is how long a hand-over counts. What a robot knew of a host's queue is worth nothing in
// the next night.
const HandoverLife = 12 * time.Hour

// ErrNotWanted says that a robot's hand-over of a host is of no use: others may visit the host
// already, or several robots have it.
var ErrNotWanted = errors.New("this robot neither has the host nor is waited for, or several robots have the host")

// PutHandover keeps what a robot hands over of a host that it has, or has just lost, for the robot
// that gets it. It replaces an earlier one. The caller has checked the robot's signature.
func (a *Assignments) PutHandover(ctx context.Context, h *wire.Handover, body []byte) error {
	head, err := json.Marshal(h)
	if err != nil {
		return err
	}
	err = db.Transact(ctx, a.db, nil, func(tx *sql.Tx) error {
		n, err := db.Exec(ctx, tx, `
			INSERT INTO handovers (host, robot, made, head, sha256, body)
			SELECT h.name, CAST(? AS TEXT), CAST(? AS BIGINT), CAST(? AS TEXT), CAST(? AS TEXT), ? FROM hosts h
			WHERE h.name = ? AND h.copies = 1 AND h.parts = 1
				AND (EXISTS (SELECT 1 FROM holds b WHERE b.host = h.name AND b.robot = ?)
					OR EXISTS (SELECT 1 FROM assignments o WHERE o.host = h.name AND o.to_generation IS NULL AND o.robot = ?))
			ON CONFLICT (host) DO UPDATE SET robot = excluded.robot, made = excluded.made, head = excluded.head, sha256 = excluded.sha256, body = excluded.body`,
			h.Robot, db.Millis(time.Now()), string(head), h.ID(), body, h.Host, h.Robot, h.Robot)
		if err == nil && n == 0 {
			err = ErrNotWanted
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("hand-over of %s by robot %s: %w", h.Host, h.Robot, err)
	}
	return nil
}

// Handover returns a hand-over by its name. The robot must have the host and be allowed to visit it.
// ErrUnknownHost says that there is none for it.
func (a *Assignments) Handover(ctx context.Context, robot, id string) (h *wire.Handover, body []byte, err error) {
	var head []byte
	err = db.ReadOnly(ctx, a.db, func(tx *sql.Tx) error {
		waits, err := waitingFor(ctx, tx, robot)
		if err != nil {
			return err
		}
		var host string
		err = tx.QueryRowContext(ctx, `
			SELECT v.host, v.head, v.body FROM handovers v JOIN assignments a ON a.host = v.host AND a.robot = ? AND a.to_generation IS NULL
			WHERE v.sha256 = ? AND v.made > ? AND v.robot <> a.robot`, robot, id, oldest()).Scan(&host, &head, &body)
		if errors.Is(err, sql.ErrNoRows) || err == nil && waits[host] {
			return ErrUnknownHost
		}
		return err
	})
	if err == nil {
		err = json.Unmarshal(head, &h)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("hand-over for robot %s: %w", robot, err)
	}
	return h, body, nil
}

func oldest() int64 { return db.Millis(time.Now().Add(-HandoverLife)) }

// handoversFor returns the names of the hand-overs for a robot, by host.
func handoversFor(ctx context.Context, tx *sql.Tx, robot string) (map[string]string, error) {
	found := map[string]string{}
	err := db.Each(ctx, tx, func(rows *sql.Rows) error {
		var host, digest string
		err := rows.Scan(&host, &digest)
		found[host] = digest
		return err
	}, `
		SELECT v.host, v.sha256 FROM handovers v CROSS JOIN assignments a
		WHERE a.host = v.host AND a.robot = ? AND a.to_generation IS NULL AND v.robot <> a.robot AND v.made > ?`, robot, oldest())
	return found, err
}

// DropHandovers forgets the hand-overs of the hosts of a robot whose program cannot take them over,
// and those that are too old.
func (a *Assignments) DropHandovers(ctx context.Context, robot string) error {
	_, err := a.db.ExecContext(ctx, `
		DELETE FROM handovers WHERE made <= ? OR host IN (
			SELECT v.host FROM handovers v CROSS JOIN assignments a WHERE a.host = v.host AND a.robot = ? AND a.to_generation IS NULL)`, oldest(), robot)
	if err != nil {
		return fmt.Errorf("hand-overs: %w", err)
	}
	return nil
}
