package levelling

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
)

// pulse is what a robot's last heartbeats have said of its cycle.
type pulse struct {
	at               int64 // time of the last heartbeat, in Unix ms; 0: there was none
	phase            wire.Phase
	cycle            int64
	pages, bytes, ms int64
	links            int64   // found in the pages
	rate             float64 // pages a second
	worked           int64   // ms for which the robot has collected
	transfers, flow  float64 // highest means since the beginning: transfers at once, bytes a second
	week             string  // see week
}

func readPulse(ctx context.Context, tx *sql.Tx, robot string) (p pulse, err error) {
	err = tx.QueryRowContext(ctx, `
		SELECT at, phase, cycle, pages, bytes, ms, links, rate, worked, transfers, flow, week FROM heartbeats WHERE robot = ?`, robot).
		Scan(&p.at, &p.phase, &p.cycle, &p.pages, &p.bytes, &p.ms, &p.links, &p.rate, &p.worked, &p.transfers, &p.flow, &p.week)
	return p, db.OrNone(err, nil)
}

// write stores the pulse after a heartbeat.
func (p pulse) write(ctx context.Context, tx *sql.Tx, robot string, hb wire.Heartbeat) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO heartbeats (robot, at, generation, phase, cycle, left_urls, pages, bytes, ms, spool, rate, worked, transfers, flow, week, crowded, every, links)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (robot) DO UPDATE SET at = excluded.at, generation = excluded.generation, phase = excluded.phase, cycle = excluded.cycle,
			left_urls = excluded.left_urls, pages = excluded.pages, bytes = excluded.bytes, ms = excluded.ms, spool = excluded.spool, rate = excluded.rate,
			worked = excluded.worked, transfers = excluded.transfers, flow = excluded.flow, week = excluded.week,
			crowded = excluded.crowded, every = excluded.every, links = excluded.links`,
		robot, p.at, hb.Generation, p.phase, p.cycle, hb.Left, p.pages, p.bytes, p.ms, hb.Spool, p.rate, p.worked, p.transfers, p.flow, p.week, hb.Crowded, hb.EveryMS, hb.Links)
	return err
}

const (
	settled    = 6                // means count after so many heartbeats while collecting
	mostWidth  = 100_000          // transfers at once: the highest value of a robot's setting
	mostFlow   = 100 << 30 / 8    // bytes a second: 100 Gbit/s
	longSilent = 20 * time.Minute // between two heartbeats; the time between them then counts as unknown
)

// next returns the pulse after a heartbeat. It ignores figures that no robot can reach.
func (p pulse) next(at time.Time, zone *time.Location, hb wire.Heartbeat) pulse {
	now := db.Millis(at)
	n := pulse{
		at: now, phase: hb.Phase, cycle: hb.Cycle, pages: hb.Pages, bytes: hb.Bytes, ms: hb.MS,
		rate: p.rate, week: p.week,
	}
	n.week = week(p.week).note(at.In(zone), hb)
	if p.at == 0 || now <= p.at || p.cycle != hb.Cycle {
		return n
	}
	n.worked, n.transfers, n.flow = p.worked, p.transfers, p.flow
	passed := now - p.at
	if p.phase != wire.PhaseCollecting || passed > longSilent.Milliseconds() {
		return n
	}
	pages, bytes, ms := hb.Pages-p.pages, hb.Bytes-p.bytes, hb.MS-p.ms
	if hb.Phase != wire.PhaseCollecting {
		n.worked += passed / 2 // it stopped at some time between the heartbeats
		return n
	}
	n.worked += passed
	if pages < 0 || bytes < 0 || ms < 0 || ms > passed*mostWidth || bytes/1000 > passed*mostFlow/1_000_000 {
		return n // the program has started anew, or the figures are impossible
	}
	rate := float64(pages) / (float64(passed) / 1000)
	if n.rate = rate; p.rate > 0 {
		n.rate = (p.rate + rate) / 2
	}
	if n.worked >= settled*passed {
		n.transfers = max(n.transfers, float64(hb.MS)/float64(n.worked))
		n.flow = max(n.flow, float64(hb.Bytes)*1000/float64(n.worked))
	}
	return n
}

// week says for each hour of the week, from Monday 00:00 on, whether the robot's window was open
// ('o') or shut ('s') when its heartbeats came; '?': not known. It has 168 characters, or is empty
// if nothing is known.
type week string

const hoursOfWeek = 7 * 24

func (w week) note(at time.Time, hb wire.Heartbeat) string {
	state := byte('?')
	switch {
	case hb.Phase == wire.PhaseCollecting, hb.Phase == wire.PhaseIdle:
		state = 'o'
	case hb.Phase == wire.PhaseClosed, hb.Phase == wire.PhaseResting && hb.Cycle > 0:
		state = 's'
	}
	if len(w) != hoursOfWeek {
		w = week(strings.Repeat("?", hoursOfWeek))
	}
	hour := hourOfWeek(at)
	if state == '?' || w[hour] == state {
		return string(w)
	}
	return string(w[:hour]) + string(state) + string(w[hour+1:])
}

// hourOfWeek returns the hour of the week; 0 is Monday 00:00.
func hourOfWeek(at time.Time) int { return (int(at.Weekday())+6)%7*24 + at.Hour() }

// open reports whether the window is open in an hour of the week. If the hour is not known, it
// takes the same hour of the latest earlier day on which that is known.
func (w week) open(hour int) bool {
	if len(w) != hoursOfWeek {
		return true
	}
	for day := range 7 {
		if state := w[(hour+hoursOfWeek-24*day)%hoursOfWeek]; state != '?' {
			return state == 'o'
		}
	}
	return true
}

// end returns the time at which a robot that begins at from has collected for the duration long,
// only while its window is open. It returns false if that takes more than a month.
func (w week) end(from time.Time, long time.Duration) (time.Time, bool) {
	for range 31 * 24 {
		next := from.Truncate(time.Hour).Add(time.Hour)
		if w.open(hourOfWeek(from)) {
			if at := from.Add(long); !at.After(next) {
				return at, true
			}
			long -= next.Sub(from)
		}
		from = next
	}
	return time.Time{}, false
}
