package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"sheaf/internal/peer"
	"sheaf/internal/problem"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
)

// serveHeartbeat takes a robot's heartbeat and answers with orders, or with 204 if there are
// none.
func (m *Manager) serveHeartbeat(w http.ResponseWriter, r *http.Request, robot string) error {
	var hb wire.Heartbeat
	// Unknown fields are ignored: a robot may be newer than its manager.
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
	if err := m.Roster.NoteAddress(r.Context(), robot, peer.Addr(r.RemoteAddr), hb, time.Now()); err != nil {
		return err
	}
	refused, err := m.Roster.NoteSigning(r.Context(), robot, hb.Signing, m.authority(r), time.Now())
	if err != nil {
		return err
	}
	if refused > 0 {
		m.opt.Log.WarnContext(r.Context(), "signing keys of a robot are not for this service's directory", "robot", robot, "host", m.authority(r), "dropped", refused)
	}
	if generation, ok := assign.TagGeneration(robot, hb.List); ok && orders.List == hb.List { // otherwise it gets a lease with its new list
		lease, err := m.Assignments.Renew(r.Context(), robot, generation)
		if err != nil {
			return err
		}
		if lease.Renewed {
			w.Header().Set(wire.HeaderLease, lease.String())
		}
	}
	page, err := m.Roster.Page(r.Context(), robot)
	if err != nil {
		return err
	}
	w.Header().Set(wire.HeaderPage, m.opt.Public+page)
	if len(orders.Directives) == 0 && len(orders.Probes) == 0 && len(orders.Visits) == 0 {
		return noContent(w, nil)
	}
	w.Header().Set("Cache-Control", "no-store")
	return problem.JSON(w, http.StatusOK, orders)
}

// maxCount is the highest count that a heartbeat may have. The sum of thousands of such counts fits
// into an int64, and a robot that receives 1 Gbit/s needs months to reach it in bytes.
const maxCount = 1 << 50

func checkHeartbeat(hb wire.Heartbeat) error {
	if !hb.Phase.Valid() {
		return fmt.Errorf("phase %q is unknown; PROTOCOL.md lists the phases", hb.Phase)
	}
	for name, n := range map[string]int64{"generation": hb.Generation, "cycle": hb.Cycle, "left": hb.Left, "pages": hb.Pages, "links": hb.Links, "bytes": hb.Bytes, "ms": hb.MS, "spool": hb.Spool, "crowded": hb.Crowded, "every_ms": hb.EveryMS} {
		if n < 0 || n > maxCount {
			return fmt.Errorf("%s is %d; send 0 to %d", name, n, int64(maxCount))
		}
	}
	for _, part := range []struct {
		what      string
		has, most int
		unit      string
	}{
		{"contact", len(hb.Contact), wire.MaxContact, "bytes"},
		{"version", len(hb.Version), wire.MaxVersion, "bytes"},
		{"signing", len(hb.Signing), wire.MaxSigning, "keys"},
		{"taken", len(hb.Taken), wire.MaxVisits, "hosts"},
		{"probes", len(hb.Probes), wire.MaxProbes, "hosts"},
		{"hosts", len(hb.Hosts), wire.MaxHeartbeatHosts, "entries"},
		{"unanswered", len(hb.Unanswered), wire.MaxHeartbeatHosts, "entries"},
	} {
		if part.has > part.most {
			return fmt.Errorf("%s has %d %s; send at most %d", part.what, part.has, part.unit, part.most)
		}
	}
	for kind, detail := range hb.Troubles {
		if len(detail) > wire.MaxTrouble {
			return fmt.Errorf("trouble %.20q has %d bytes; send at most %d", kind, len(detail), wire.MaxTrouble)
		}
	}
	for host, p := range hb.Probes {
		if min(p.Files, p.Bytes, p.MS) < 0 || max(p.Files, p.Bytes, p.MS) > maxCount || len(p.Failed) > wire.MaxTrouble {
			return fmt.Errorf("probe of %.100q: %d files, %d bytes, %d ms, failed %.100q", host, p.Files, p.Bytes, p.MS, p.Failed)
		}
	}
	for host, why := range hb.Unanswered {
		if len(why) > wire.MaxTrouble {
			return fmt.Errorf("host %.100q gives no answer: why has %d bytes; send at most %d", host, len(why), wire.MaxTrouble)
		}
	}
	for host, p := range hb.Hosts {
		if p.State != wire.HostBegun && p.State != wire.HostDone || p.Pages < 0 || p.Bytes < 0 || p.MS < 0 || p.Left < 0 || p.AgoMS < 0 || p.Status < 0 || max(p.Pages, p.Bytes, p.MS, p.Left, p.AgoMS) > maxCount || p.Status > 999 {
			return fmt.Errorf("host %s: state %q with %d pages, %d bytes, %d ms", host, p.State, p.Pages, p.Bytes, p.MS)
		}
	}
	return nil
}

// Heartbeat records a robot's progress and returns its orders. Calling it again with the same
// heartbeat does no harm.
func (m *Manager) Heartbeat(ctx context.Context, robot string, hb wire.Heartbeat) (orders wire.Orders, err error) {
	unknown, err := m.Levelling.NoteHeartbeat(ctx, robot, hb)
	if err != nil {
		return orders, fmt.Errorf("heartbeat of robot %s: %w", robot, err)
	}
	if generation, ok := assign.TagGeneration(robot, hb.List); ok { // after its clock is noted, because holds end by it
		if err := m.Assignments.Confirm(ctx, robot, generation); err != nil {
			return orders, err
		}
	}
	if unknown {
		orders.Directives = append(orders.Directives, wire.DirectiveReport)
	}
	if err := m.Roster.NoteSite(ctx, robot, hb); err != nil {
		return orders, fmt.Errorf("heartbeat of robot %s: %w", robot, err)
	}
	if err := m.Hosts.NoteVisits(ctx, robot, hb); err != nil {
		return orders, err
	}
	if err := m.Levelling.NoteProbes(ctx, robot, hb.Probes); err != nil {
		return orders, fmt.Errorf("heartbeat of robot %s: probes: %w", robot, err)
	}
	if m.opt.Balance.During && (hb.Phase == wire.PhaseCollecting || hb.Phase == wire.PhaseClosed) {
		if _, err := m.Levelling.HandOver(ctx, robot, time.Now()); err != nil { // nothing has changed; the next heartbeat tries again
			m.opt.Log.ErrorContext(ctx, "hosts that were not begun could not be handed on", "robot", robot, "err", err)
		}
	}
	list, due, err := m.Roster.Directives(ctx, robot, hb)
	if err != nil {
		return orders, err
	}
	orders.List, orders.Directives = list, append(orders.Directives, due...)
	if orders.Visits, err = m.Hosts.VisitsFor(ctx, robot, hb.Taken); err != nil {
		return orders, err
	}
	orders.Probes, err = m.Levelling.ProbesFor(ctx, robot)
	return orders, err
}
