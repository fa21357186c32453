package roster

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/wire"
)

// stages are the percentages of the robots that are offered a release, one after the other.
var stages = [...]int{1, 10, 100}

// stage is the present stage of a roll-out.
type stage struct {
	percent int
	since   time.Time
	soak    time.Duration
	stopped string
}

// next returns the stage after percent.
func next(percent int) int {
	for _, s := range stages {
		if s > percent {
			return s
		}
	}
	return 100
}

// silence is the time without a report after which a roll-out no longer waits for a robot.
const silence = 24 * time.Hour

// reporter is a robot as a roll-out sees it.
type reporter struct {
	name          string
	counter, seen int64
	platform      string
	reported      time.Time
	failed        bool // it went back from this release since the stage began
}

// ranked orders robots by a hash that depends on the release. So each release begins with other
// robots, and the order of two robots does not change when other robots come and go.
func ranked(counter int64, robots []reporter) []reporter {
	rank := func(r reporter) [32]byte { return sha256.Sum256(fmt.Appendf(nil, "%d:%s", counter, r.name)) }
	return slices.SortedFunc(slices.Values(robots), func(a, b reporter) int {
		x, y := rank(a), rank(b)
		return slices.Compare(x[:], y[:])
	})
}

// share returns the first percent % of the robots, rounded up.
func share(robots []reporter, percent int) []reporter {
	return robots[:(len(robots)*percent+99)/100]
}

// verdict says how a roll-out is to go on.
type verdict int

const (
	stay verdict = iota
	advance
	stop
)

// judge judges a stage by the robots that were offered the release. It returns stop if more than 5
// % of the robots that tried the release went back. One robot may be enough. It returns advance
// once the stage has lasted its soak, if 90 % of the robots that have reported lately run the
// release.
func judge(counter int64, s stage, offered []reporter, now time.Time) verdict {
	var took, failed, heard int
	for _, r := range offered {
		switch {
		case r.counter >= counter:
			took++
		case r.failed:
			failed++
		case now.Sub(r.reported) > silence:
			continue
		}
		heard++
	}
	switch {
	case failed*20 > took+failed:
		return stop
	case took > 0 && took*10 >= heard*9 && now.Sub(s.since) >= s.soak:
		return advance
	}
	return stay
}

// Report stores a robot's report on its program, moves the roll-outs on, and returns the release
// that the robot is to install, or nil if it has the right one.
func (s *Releases) Report(ctx context.Context, robot string, req wire.ReportRequest) (offer *wire.Offer, err error) {
	err = db.Transact(ctx, s.db, nil, func(tx *sql.Tx) error {
		now := time.Now()
		if _, err := tx.ExecContext(ctx, `UPDATE robots SET version = ? WHERE name = ?`, req.Version, robot); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `
			INSERT INTO release_reports (robot, counter, seen, platform, reported) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (robot) DO UPDATE SET counter = excluded.counter, seen = excluded.seen, platform = excluded.platform, reported = excluded.reported`,
			robot, req.Counter, req.Seen, req.Platform, db.Millis(now))
		if err != nil {
			return err
		}
		for _, f := range req.Failed {
			_, err := tx.ExecContext(ctx, `
				INSERT INTO release_failures (robot, counter, why, at) VALUES (?, ?, ?, ?)
				ON CONFLICT (robot, counter) DO UPDATE SET why = excluded.why`, robot, f.Counter, f.Why, db.Millis(now))
			if err != nil {
				return err
			}
		}
		offer, err = s.offer(ctx, tx, robot, req, now)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("report of %s: %w", robot, err)
	}
	return offer, nil
}

// offer returns the newest release that the robot may have, or nil if the robot runs it or a later
// release.
func (s *Releases) offer(ctx context.Context, tx *sql.Tx, robot string, req wire.ReportRequest, now time.Time) (*wire.Offer, error) {
	all, err := releases(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if _, ok := p.File(req.Platform); !ok || p.Counter <= req.Counter || p.Counter < req.Seen || p.stopped != "" || !now.Before(p.Expires) {
			continue
		}
		robots, err := s.moveOn(ctx, tx, &p, now)
		if err != nil {
			return nil, err
		}
		mine := slices.ContainsFunc(share(robots, p.percent), func(r reporter) bool { return r.name == robot })
		if p.stopped == "" && (mine || req.Counter < p.Floor) {
			return &wire.Offer{Release: string(p.text), Signature: string(p.signature)}, nil
		}
	}
	return nil, s.moveRest(ctx, tx, all, req.Counter, now)
}

// moveRest judges the roll-outs of all releases up to the one that the robot runs, because a stage
// of each may have waited for this report.
func (s *Releases) moveRest(ctx context.Context, tx *sql.Tx, all []published, counter int64, now time.Time) error {
	for _, p := range all {
		if p.Counter > counter || p.percent == 100 || p.stopped != "" {
			continue
		}
		if _, err := s.moveOn(ctx, tx, &p, now); err != nil {
			return err
		}
	}
	return nil
}

// moveOn moves a roll-out on by as many stages as the reports allow, and returns the robots in the
// order in which they are offered the release. With few robots, two stages may have the same
// robots.
func (s *Releases) moveOn(ctx context.Context, tx *sql.Tx, p *published, now time.Time) ([]reporter, error) {
	robots, err := reporters(ctx, tx, *p)
	robots = ranked(p.Counter, robots)
	for err == nil && p.stopped == "" {
		offered := share(robots, p.percent)
		v := judge(p.Counter, p.stage, offered, now)
		switch {
		case v == stop:
			failed := len(slices.DeleteFunc(slices.Clone(offered), func(r reporter) bool { return !r.failed }))
			p.stopped = fmt.Sprintf("%d of %d robots put it back", failed, len(offered))
			s.log.ErrorContext(ctx, "roll-out stopped", "release", p.Counter, "percent", p.percent, "reason", p.stopped)
		case v == advance && p.percent < 100:
			p.percent, p.since = next(p.percent), now
			s.log.InfoContext(ctx, "roll-out goes on", "release", p.Counter, "percent", p.percent)
		default:
			return robots, nil
		}
		_, err = tx.ExecContext(ctx, `UPDATE releases SET percent = ?, since = ?, stopped = ? WHERE counter = ?`,
			p.percent, db.Millis(p.since), p.stopped, p.Counter)
	}
	return robots, err
}

// reporters returns the robots that have credentials and a platform for which the release has a
// program.
func reporters(ctx context.Context, q db.Queryer, p published) ([]reporter, error) {
	robots, err := db.List(ctx, q, func(rows *sql.Rows, r *reporter) error {
		return rows.Scan(&r.name, &r.counter, &r.seen, &r.platform, db.At(&r.reported), &r.failed)
	}, `
		SELECT r.name, rr.counter, rr.seen, rr.platform, rr.reported,
			EXISTS (SELECT 1 FROM release_failures f WHERE f.robot = r.name AND f.counter = ? AND f.at >= ?)
		FROM robots r JOIN release_reports rr ON rr.robot = r.name WHERE r.secret_hash IS NOT NULL`, p.Counter, db.Millis(p.since))
	return slices.DeleteFunc(robots, func(r reporter) bool {
		_, ok := p.File(r.platform)
		return !ok
	}), err
}

// BelowFloor returns the floor if the robot's program is older than it, or else 0. The floor is the
// counter of the oldest release that gets work. A robot that has never reported is below every
// floor.
func (s *Releases) BelowFloor(ctx context.Context, robot string) (int64, error) {
	all, err := releases(ctx, s.db)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	var floor, counter int64
	for _, p := range all {
		if p.stopped == "" {
			floor = max(floor, p.Floor)
		}
	}
	if floor == 0 {
		return 0, nil
	}
	err = s.db.QueryRowContext(ctx, `SELECT counter FROM release_reports WHERE robot = ?`, robot).Scan(&counter)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	if counter >= floor {
		return 0, nil
	}
	return floor, nil
}
