package assign

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
)

// HandoverLife is how long a hand-over is valid. A host's queue of one night is worth nothing in
// the next.
const HandoverLife = 12 * time.Hour

// ErrNotWanted says that nobody can use a robot's hand-over of a host: other robots may visit the
// host already, or several robots have it.
var ErrNotWanted = errors.New("this robot neither has the host nor is waited for, or several robots have the host")

// handoverPart is the size in bytes of a stored part of a body.
const handoverPart = 1 << 20

// WrongBodyError says that the body of a hand-over could not be read, or is not what its head says.
type WrongBodyError struct{ Err error }

func (e *WrongBodyError) Error() string { return e.Err.Error() }
func (e *WrongBodyError) Unwrap() error { return e.Err }

// wantedHandover is the SQL condition that a robot's hand-over of host h is of use. The robot's
// name is its argument, twice.
const wantedHandover = `h.copies = 1 AND h.parts = 1
	AND (EXISTS (SELECT 1 FROM holds b WHERE b.host = h.name AND b.robot = ?)
		OR EXISTS (SELECT 1 FROM assignments o WHERE o.host = h.name AND o.to_generation IS NULL AND o.robot = ?))`

// PutHandover keeps a robot's hand-over of a host for the robot that gets the host. The sending
// robot must have the host or have just lost it. The hand-over replaces an earlier one. The caller
// has checked the robot's signature. body is what wire.OpenHandover returned; it is not read if the
// same hand-over is kept already. If reading it fails, PutHandover returns a *WrongBodyError and
// the earlier hand-over stays.
func (a *Assignments) PutHandover(ctx context.Context, h *wire.Handover, body io.Reader) error {
	if err := a.putHandover(ctx, h, body); err != nil {
		return fmt.Errorf("hand-over of %s by robot %s: %w", h.Host, h.Robot, err)
	}
	return nil
}

func (a *Assignments) putHandover(ctx context.Context, h *wire.Handover, body io.Reader) error {
	var wanted, known bool
	err := a.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM hosts h WHERE h.name = ? AND `+wantedHandover+`),
		EXISTS (SELECT 1 FROM handovers v WHERE v.host = ? AND v.sha256 = ?)`, h.Host, h.Robot, h.Robot, h.Host, h.ID()).Scan(&wanted, &known)
	switch {
	case err != nil:
		return err
	case !wanted:
		return ErrNotWanted
	case !known:
		if err := a.putParts(ctx, h.ID(), body); err != nil {
			return errors.Join(err, a.dropParts(context.WithoutCancel(ctx), h.ID()))
		}
	}
	head, err := json.Marshal(h)
	if err != nil {
		return err
	}
	var old string
	err = db.Transact(ctx, a.db, nil, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `SELECT COALESCE((SELECT sha256 FROM handovers WHERE host = ?), '')`, h.Host).Scan(&old)
		if err != nil {
			return err
		}
		var bytes int64
		err = tx.QueryRowContext(ctx, `SELECT COALESCE(SUM(LENGTH(body)), 0) FROM handover_parts WHERE id = ?`, h.ID()).Scan(&bytes)
		if err == nil && bytes != h.Size {
			err = fmt.Errorf("%d of its %d bytes are here: another request has interfered", bytes, h.Size)
		}
		if err != nil {
			return err
		}
		err = db.Change(ctx, tx, ErrNotWanted, `
			INSERT INTO handovers (host, robot, made, head, sha256)
			SELECT h.name, CAST(? AS TEXT), CAST(? AS BIGINT), CAST(? AS TEXT), CAST(? AS TEXT) FROM hosts h
			WHERE h.name = ? AND `+wantedHandover+`
			ON CONFLICT (host) DO UPDATE SET robot = excluded.robot, made = excluded.made, head = excluded.head, sha256 = excluded.sha256`,
			h.Robot, db.Millis(time.Now()), string(head), h.ID(), h.Host, h.Robot, h.Robot)
		return err
	})
	if err != nil {
		return errors.Join(err, a.dropParts(context.WithoutCancel(ctx), h.ID()))
	}
	if old != "" && old != h.ID() {
		if err := a.dropParts(ctx, old); err != nil {
			return err
		}
	}
	_, err = a.db.ExecContext(ctx, `DELETE FROM handover_parts WHERE made <= ? AND id NOT IN (SELECT sha256 FROM handovers)`, oldest())
	return err
}

// putParts stores a body in parts, each in a transaction of its own.
func (a *Assignments) putParts(ctx context.Context, id string, body io.Reader) error {
	part := make([]byte, handoverPart)
	for n := 0; ; n++ {
		got, err := io.ReadFull(body, part)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return &WrongBodyError{err}
		}
		if got > 0 {
			_, err := a.db.ExecContext(ctx, `
				INSERT INTO handover_parts (id, n, made, body) VALUES (?, ?, ?, ?)
				ON CONFLICT (id, n) DO UPDATE SET made = excluded.made, body = excluded.body`, id, n, db.Millis(time.Now()), part[:got])
			if err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// dropParts deletes a body's parts, unless a hand-over refers to the body.
func (a *Assignments) dropParts(ctx context.Context, id string) error {
	_, err := a.db.ExecContext(ctx, `DELETE FROM handover_parts WHERE id = ? AND NOT EXISTS (SELECT 1 FROM handovers v WHERE v.sha256 = handover_parts.id)`, id)
	return err
}

// handoverParts reads a body from the database, one part after the other.
type handoverParts struct {
	ctx  context.Context
	db   *sql.DB
	id   string
	n    int
	left []byte // what Read has not returned of the last part
}

func (p *handoverParts) Read(to []byte) (int, error) {
	if len(p.left) == 0 {
		err := p.db.QueryRowContext(p.ctx, `SELECT body FROM handover_parts WHERE id = ? AND n = ?`, p.id, p.n).Scan(&p.left)
		if err != nil {
			return 0, db.OrNone(err, io.EOF)
		}
		p.n++
	}
	n := copy(to, p.left)
	p.left = p.left[n:]
	return n, nil
}

// Handover returns a hand-over by its ID. The robot must have the host and be allowed to visit it.
// ErrUnknownHost says that the robot may have no such hand-over. body can be read until ctx ends.
func (a *Assignments) Handover(ctx context.Context, robot, id string) (h *wire.Handover, body io.Reader, err error) {
	var head []byte
	err = db.ReadOnly(ctx, a.db, func(tx *sql.Tx) error {
		waits, err := waitingFor(ctx, tx, robot)
		if err != nil {
			return err
		}
		var host string
		err = tx.QueryRowContext(ctx, `
			SELECT v.host, v.head FROM handovers v JOIN assignments a ON a.host = v.host AND a.robot = ? AND a.to_generation IS NULL
			WHERE v.sha256 = ? AND v.made > ? AND v.robot <> a.robot`, robot, id, oldest()).Scan(&host, &head)
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
	return h, &handoverParts{ctx: ctx, db: a.db, id: id}, nil
}

func oldest() int64 { return db.Millis(time.Now().Add(-HandoverLife)) }

// handoversFor returns the IDs of the hand-overs for a robot, by host.
func handoversFor(ctx context.Context, tx *sql.Tx, robot string) (map[string]string, error) {
	return db.Pairs[string, string](ctx, tx, `
		SELECT v.host, v.sha256 FROM handovers v CROSS JOIN assignments a
		WHERE a.host = v.host AND a.robot = ? AND a.to_generation IS NULL AND v.robot <> a.robot AND v.made > ?`, robot, oldest())
}

// DropHandovers deletes the hand-overs of a robot's hosts, because its program cannot take them
// over, and all hand-overs that are too old.
func (a *Assignments) DropHandovers(ctx context.Context, robot string) error {
	_, err := a.db.ExecContext(ctx, `DELETE FROM handovers WHERE made <= ?`, oldest())
	if err == nil {
		_, err = a.db.ExecContext(ctx, `DELETE FROM handovers WHERE host IN (SELECT a.host FROM assignments a WHERE a.robot = ? AND a.to_generation IS NULL)`, robot)
	}
	if err != nil {
		return fmt.Errorf("hand-overs: %w", err)
	}
	return nil
}
