package manager

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/problem"
	"sheaf/internal/wire"
)

// serveHeartbeat takes a robot's word of how far it is, and answers with what it is to
// do: 204 where that is to go on as it does.
func (m *Manager) serveHeartbeat(w http.ResponseWriter, r *http.Request, robot string) error {
	var hb wire.Heartbeat
	// Fields that are not known are passed over: a robot may be newer than its manager.
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, wire.MaxHeartbeat)).Decode(&hb); err != nil {
		return bodyError("bad_heartbeat", fmt.Errorf("body: %w", err))
	}
	if err := checkHeartbeat(hb); err != nil {
		return problem.New(http.StatusBadRequest, "bad_heartbeat", err.Error())
	}
	orders, err := m.Heartbeat(r.Context(), robot, hb)
	if err != nil {
		return err
	}
	if len(orders.Directives) == 0 && len(orders.Probes) == 0 && len(orders.Visits) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	w.Header().Set("Cache-Control", "no-store")
	return writeJSON(w, http.StatusOK, orders)
}

func checkHeartbeat(hb wire.Heartbeat) error {
	if !hb.Phase.Valid() {
		return fmt.Errorf("phase %q is none that a robot can be in", hb.Phase)
	}
	for name, n := range map[string]int64{"generation": hb.Generation, "cycle": hb.Cycle, "left": hb.Left, "pages": hb.Pages, "bytes": hb.Bytes, "ms": hb.MS, "spool": hb.Spool} {
		if n < 0 {
			return fmt.Errorf("%s %d is below 0", name, n)
		}
	}
	if len(hb.Taken) > wire.MaxVisits {
		return fmt.Errorf("%d visits taken; at most %d are ordered at once", len(hb.Taken), wire.MaxVisits)
	}
	if len(hb.Hosts) > wire.MaxHeartbeatHosts {
		return fmt.Errorf("%d hosts; tell at most %d at once", len(hb.Hosts), wire.MaxHeartbeatHosts)
	}
	for host, p := range hb.Hosts {
		if p.State != wire.HostBegun && p.State != wire.HostDone || p.Pages < 0 || p.Bytes < 0 || p.MS < 0 {
			return fmt.Errorf("host %s: state %q with %d pages, %d bytes, %d ms", host, p.State, p.Pages, p.Bytes, p.MS)
		}
	}
	return nil
}

// Heartbeat notes how far the robot is and gives what it is to do. The same heartbeat
// again does no harm.
func (m *Manager) Heartbeat(ctx context.Context, robot string, hb wire.Heartbeat) (wire.Orders, error) {
	var orders wire.Orders
	if err := m.noteHeartbeat(ctx, robot, hb, &orders); err != nil {
		return orders, fmt.Errorf("heartbeat of robot %s: %w", robot, err)
	}
	if err := m.noteProbes(ctx, robot, hb.Probes); err != nil {
		return orders, fmt.Errorf("heartbeat of robot %s: probes: %w", robot, err)
	}
	if m.opt.Balance.During && (hb.Phase == wire.PhaseCollecting || hb.Phase == wire.PhaseClosed) {
		if _, err := m.shed(ctx, robot, time.Now()); err != nil { // all is as it was, and is looked at again with the next heartbeat
			m.log.ErrorContext(ctx, "hosts that were not begun could not be handed on", "from", robot, "err", err)
		}
	}
	return orders, m.orders(ctx, robot, hb, &orders)
}

// orders fills in what the robot is to do, by what it said of itself.
func (m *Manager) orders(ctx context.Context, robot string, hb wire.Heartbeat, orders *wire.Orders) error {
	var generation int64
	var paused, look bool
	err := m.db.QueryRowContext(ctx, `SELECT list_generation, paused, CASE WHEN look > 0 THEN 1 ELSE 0 END FROM robots WHERE name = ?`, robot).Scan(&generation, &paused, &look)
	if err != nil {
		return err
	}
	restart, err := m.restartDue(ctx, robot, hb.Generation)
	if err != nil {
		return err
	}
	orders.List = listTag(robot, generation)
	order := func(due bool, d wire.Directive) {
		if due {
			orders.Directives = append(orders.Directives, d)
		}
	}
	order(restart, wire.DirectiveRestart)
	order(!restart && hb.List != orders.List, wire.DirectiveRebalance)
	order(paused && !hb.Held, wire.DirectivePause)
	order(!paused && hb.Held, wire.DirectiveResume)
	order(look, wire.DirectiveUpgrade)
	if orders.Visits, err = m.visitsFor(ctx, robot, hb.Taken); err != nil {
		return err
	}
	orders.Probes, err = m.probesFor(ctx, robot)
	return err
}

// noteHeartbeat writes down what the robot said. A robot of whose cycle nothing is known is asked to tell all.
func (m *Manager) noteHeartbeat(ctx context.Context, robot string, hb wire.Heartbeat, orders *wire.Orders) error {
	now := time.Now()
	return m.transact(ctx, nil, func(tx *sql.Tx) error {
		var before pulse
		err := tx.QueryRowContext(ctx, `SELECT at, cycle, phase, pages, rate FROM heartbeats WHERE robot = ?`, robot).
			Scan(&before.at, &before.cycle, &before.phase, &before.pages, &before.rate)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if before.cycle != hb.Cycle || hb.All {
			if _, err := tx.ExecContext(ctx, `DELETE FROM progress WHERE robot = ?`, robot); err != nil {
				return err
			}
		}
		if before.at == 0 && !hb.All && hb.Phase != wire.PhaseStarting {
			orders.Directives = append(orders.Directives, wire.DirectiveReport)
		}
		_, err = tx.ExecContext(ctx, `
			INSERT INTO heartbeats (robot, at, generation, phase, cycle, left_urls, pages, bytes, ms, spool, rate)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (robot) DO UPDATE SET at = excluded.at, generation = excluded.generation, phase = excluded.phase, cycle = excluded.cycle,
				left_urls = excluded.left_urls, pages = excluded.pages, bytes = excluded.bytes, ms = excluded.ms, spool = excluded.spool, rate = excluded.rate`,
			robot, db.Millis(now), hb.Generation, hb.Phase, hb.Cycle, hb.Left, hb.Pages, hb.Bytes, hb.MS, hb.Spool, before.next(db.Millis(now), hb))
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE robots SET version = ? WHERE name = ? AND version <> ?`, hb.Version, robot, hb.Version); err != nil {
			return err
		}
		return noteProgress(ctx, tx, robot, hb)
	})
}

func noteProgress(ctx context.Context, tx *sql.Tx, robot string, hb wire.Heartbeat) error {
	if len(hb.Hosts) == 0 {
		return nil
	}
	put, err := tx.PrepareContext(ctx, `
		INSERT INTO progress (robot, host, cycle, state, pages, bytes, ms) SELECT ?, ?, ?, ?, ?, ?, ?
		WHERE EXISTS (SELECT 1 FROM hosts WHERE name = ?)
		ON CONFLICT (robot, host) DO UPDATE SET cycle = excluded.cycle, state = excluded.state,
			pages = excluded.pages, bytes = excluded.bytes, ms = excluded.ms`)
	if err != nil {
		return err
	}
	defer put.Close()
	for host, p := range hb.Hosts {
		if _, err := put.ExecContext(ctx, robot, host, hb.Cycle, p.State, p.Pages, p.Bytes, p.MS, host); err != nil {
			return err
		}
	}
	return nil
}

// pulse is what the last heartbeat said.
type pulse struct {
	at, cycle, pages int64
	phase            wire.Phase
	rate             float64
}

// next gives the robot's rate in pages a second as it is now, half of it by what has
// come since the last heartbeat. A robot that was not collecting all the while tells nothing.
func (p pulse) next(now int64, hb wire.Heartbeat) float64 {
	if p.at == 0 || now <= p.at || p.cycle != hb.Cycle || hb.Pages < p.pages || p.phase != wire.PhaseCollecting || hb.Phase != wire.PhaseCollecting {
		return p.rate
	}
	rate := float64(hb.Pages-p.pages) / (float64(now-p.at) / 1000)
	if p.rate == 0 {
		return rate
	}
	return (p.rate + rate) / 2
}
