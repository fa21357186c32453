package levelling

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
)

// Backlog is what one robot has done and has left to do, by its last heartbeat.
type Backlog struct {
	Robot      string    `json:"robot"`
	At         time.Time `json:"at"` // time of the heartbeat
	Phase      string    `json:"phase"`
	Cycle      int64     `json:"cycle"`
	Left       int64     `json:"left"`           // URLs known and not collected
	Rate       float64   `json:"pages_a_second"` // 0: not known yet
	Pages      int64     `json:"pages"`
	Bytes      int64     `json:"bytes"`
	Spool      int64     `json:"spool"`
	Begun      int64     `json:"hosts_begun"`
	Done       int64     `json:"hosts_done"`       // without hosts that give no answer
	Unanswered int64     `json:"hosts_unanswered"` // its hosts whose last visit got no answer
}

// Speed returns the pages a second that the robot fetches now: its Rate, or 0 if it was not heard
// of lately or was not collecting.
func (b Backlog) Speed(now time.Time) float64 {
	if b.Phase != string(wire.PhaseCollecting) || now.Sub(b.At) > freshFor {
		return 0
	}
	return b.Rate
}

// Backlogs returns the backlogs of the robots that take part, by name.
func (l *Leveller) Backlogs(ctx context.Context) ([]Backlog, error) {
	list, err := db.List(ctx, l.db, func(rows *sql.Rows, b *Backlog) error {
		return rows.Scan(&b.Robot, db.At(&b.At), &b.Phase, &b.Cycle, &b.Left, &b.Rate, &b.Pages, &b.Bytes, &b.Spool, &b.Begun, &b.Done, &b.Unanswered)
	}, `
		SELECT b.robot, b.at, b.phase, b.cycle, b.left_urls, b.rate, b.pages, b.bytes, b.spool,
			(SELECT COUNT(*) FROM progress d WHERE d.robot = b.robot AND d.state = 'begun'),
			(SELECT COUNT(*) FROM progress d WHERE d.robot = b.robot AND d.state = 'done')
				- (SELECT COUNT(*) FROM visits v JOIN progress d ON d.robot = v.robot AND d.host = v.host WHERE v.robot = b.robot AND v.why <> '' AND d.state = 'done'),
			(SELECT COUNT(*) FROM visits v JOIN assignments a ON a.robot = v.robot AND a.host = v.host AND a.to_generation IS NULL WHERE v.robot = b.robot AND v.why <> '')
		FROM heartbeats b JOIN robots r ON r.name = b.robot WHERE r.subscribed = 1 AND r.lapsed = 0 ORDER BY b.robot`)
	if err != nil {
		return nil, fmt.Errorf("backlogs: %w", err)
	}
	return list, nil
}

// active returns the backlogs of the robots that can exchange hosts now.
func (l *Leveller) active(ctx context.Context, now time.Time) ([]Backlog, error) {
	all, err := l.Backlogs(ctx)
	return slices.DeleteFunc(all, func(b Backlog) bool { return !b.active(now) }), err
}

// active reports whether the robot is at work and was heard of lately.
func (b Backlog) active(now time.Time) bool {
	switch b.Phase {
	case "collecting", "closed", "idle":
		return now.Sub(b.At) <= freshFor
	}
	return false
}

// left returns the URLs that each robot has left.
func left(list []Backlog) []float64 {
	urls := make([]float64, len(list))
	for i, b := range list {
		urls[i] = float64(b.Left)
	}
	return urls
}

// rates returns the robots' rates in pages a second. A robot whose rate is not known gets the
// mean of the others. If no rate is known, it returns nil.
func rates(list []Backlog) []float64 {
	sum, n := 0.0, 0
	for _, b := range list {
		if b.Rate > 0 {
			sum, n = sum+b.Rate, n+1
		}
	}
	if n == 0 {
		return nil
	}
	r := make([]float64, len(list))
	for i, b := range list {
		if r[i] = b.Rate; r[i] <= 0 {
			r[i] = sum / float64(n)
		}
	}
	return r
}

// NoteHeartbeat stores what a robot says of its cycle. unknown reports that the robot must be asked
// to report all its hosts, because nothing was known of it.
func (l *Leveller) NoteHeartbeat(ctx context.Context, robot string, hb wire.Heartbeat) (unknown bool, err error) {
	now := time.Now()
	err = db.Transact(ctx, l.db, nil, func(tx *sql.Tx) error {
		before, err := readPulse(ctx, tx, robot)
		if err != nil {
			return err
		}
		unknown = before.at == 0 && !hb.All && hb.Phase != wire.PhaseStarting
		if before.cycle != hb.Cycle && before.at > 0 {
			if err := learn(ctx, tx, robot); err != nil {
				return fmt.Errorf("what the last cycle has shown: %w", err)
			}
		}
		if before.cycle != hb.Cycle || hb.All {
			if err := forgetProgress(ctx, tx, robot, hb); err != nil {
				return err
			}
		}
		next := before.next(now, l.opt.Zone, hb)
		if err := next.write(ctx, tx, robot, hb); err != nil {
			return err
		}
		if err := noteSeries(ctx, tx, l.opt.Zone, robot, before, next, hb); err != nil {
			return err
		}
		if err := noteNight(ctx, tx, robot, before, next, hb); err != nil {
			return err
		}
		ahead := aheadOf(hb.Clock)
		if _, err := tx.ExecContext(ctx, `UPDATE robots SET version = ?, ahead = ? WHERE name = ? AND (version <> ? OR ahead <> ?)`,
			hb.Version, ahead, robot, hb.Version, ahead); err != nil {
			return err
		}
		return noteProgress(ctx, tx, robot, hb, next.worked)
	})
	return unknown, err
}

// aheadOf returns the ms by which a robot's clock is ahead, rounded up to whole seconds, and at
// most assign.MaxAhead.
func aheadOf(c *wire.Clock) int64 {
	if c == nil || c.OffsetMS <= 0 {
		return 0
	}
	return min((c.OffsetMS-1)/1000+1, int64(assign.MaxAhead/time.Second)) * 1000
}

// forgetProgress deletes the robot's progress in other cycles. It also deletes the progress at
// hosts that the heartbeat does not have.
func forgetProgress(ctx context.Context, tx *sql.Tx, robot string, hb wire.Heartbeat) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM progress WHERE robot = ? AND cycle <> ?`, robot, hb.Cycle); err != nil {
		return err
	}
	hosts, err := db.Column[string](ctx, tx, `SELECT host FROM progress WHERE robot = ?`, robot)
	if err != nil {
		return err
	}
	for _, host := range hosts {
		if _, told := hb.Hosts[host]; !told {
			if _, err := tx.ExecContext(ctx, `DELETE FROM progress WHERE robot = ? AND host = ?`, robot, host); err != nil {
				return err
			}
		}
	}
	return nil
}

// noteProgress stores the robot's progress at its hosts. worked is the ms for which it has
// collected in this cycle.
func noteProgress(ctx context.Context, tx *sql.Tx, robot string, hb wire.Heartbeat, worked int64) error {
	var rows [][]any
	for told := range slices.Chunk(slices.Sorted(maps.Keys(hb.Hosts)), db.RowsAtOnce) {
		known, err := db.Column[string](ctx, tx, `SELECT name FROM hosts WHERE name IN `+db.Tuple(len(told)), db.Args(told)...)
		if err != nil {
			return err
		}
		for _, host := range known {
			p, ended := hb.Hosts[host], int64(0)
			if p.State == wire.HostDone {
				ended = worked
			}
			rows = append(rows, []any{robot, host, hb.Cycle, p.State, p.Pages, p.Bytes, p.MS, worked, ended, p.Left})
		}
	}
	return db.Insert(ctx, tx, `INSERT INTO progress (robot, host, cycle, state, pages, bytes, ms, began, ended, left_urls)`, rows, `
		ON CONFLICT (robot, host) DO UPDATE SET cycle = excluded.cycle, state = excluded.state,
			pages = excluded.pages, bytes = excluded.bytes, ms = excluded.ms, left_urls = excluded.left_urls,
			ended = CASE WHEN excluded.state = 'begun' THEN 0 WHEN progress.state = 'done' THEN progress.ended ELSE excluded.ended END`)
}

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
