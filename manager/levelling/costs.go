package levelling

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/manager/assign"
)

// Book keeps the costs in the control database, and the submitted logs in a folder. It may be used
// by many goroutines at once.
type Book struct {
	db   *sql.DB
	dir  string
	zone *time.Location
}

// NewCosts returns the book in d, which internal/db has opened. Logs are kept in dir/logs. zone is
// the zone in which nights and hours of the week begin.
func NewCosts(d *sql.DB, dir string, zone *time.Location) *Book { return &Book{d, dir, zone} }

// HostCosts is what a host cost each robot. It answers GET /v1/admin/hosts/{host}/costs.
type HostCosts struct {
	Host   string     `json:"host"`
	Weight float64    `json:"weight_ms,omitempty"` // at the median robot; 0: not measured
	Robots []HostCost `json:"robots"`
}

// HostCost is what a host cost one robot.
type HostCost struct {
	Robot    string     `json:"robot"`
	KB       float64    `json:"kb"`        // of a night
	Distance float64    `json:"ms_per_kb"` // without outliers
	Hours    []HourCost `json:"hours"`
}

// HourCost is what a host cost one robot within one hour.
type HourCost struct {
	Hour     time.Time `json:"hour"`
	Requests int64     `json:"requests"`
	KB       float64   `json:"kb"`
	MS       int64     `json:"ms"`
	KBs      float64   `json:"kb_per_s"`
	Outlier  bool      `json:"outlier,omitempty"`
}

// HourRate is a robot's rate within one hour of the week.
type HourRate struct {
	Robot    string  `json:"robot"`
	Weekday  string  `json:"weekday"`
	Hour     int     `json:"hour"`
	Requests int64   `json:"requests"`
	KBs      float64 `json:"kb_per_s"` // of one transfer
}

func perSecond(bytes, ms int64) float64 { return float64(bytes) / 1024 / (float64(max(ms, 1)) / 1000) }

// OfHost returns what a host cost the robots, hour by hour.
func (b *Book) OfHost(ctx context.Context, host string) (HostCosts, error) {
	costs := HostCosts{Host: host, Robots: []HostCost{}}
	var weight sql.NullFloat64
	err := b.db.QueryRowContext(ctx, `SELECT weight FROM hosts WHERE name = ?`, host).Scan(&weight)
	if err != nil {
		return costs, db.OrNone(err, fmt.Errorf("%s: %w", host, assign.ErrUnknownHost))
	}
	costs.Weight = weight.Float64
	err = ReadLog(ctx, b.db, `h.name = ?`, []any{host}, func(robot, _ string, list Samples) {
		costs.Robots = append(costs.Robots, list.cost(robot, b.zone))
	})
	slices.SortFunc(costs.Robots, func(a, b HostCost) int { return strings.Compare(a.Robot, b.Robot) })
	return costs, err
}

// cost works out a robot's costs from the samples.
func (list Samples) cost(robot string, zone *time.Location) HostCost {
	distance, outliers := list.Distance()
	kb, _ := list.Nightly(zone)
	c := HostCost{Robot: robot, KB: kb, Distance: distance}
	for _, s := range list {
		c.Hours = append(c.Hours, HourCost{
			Hour: time.Unix(s.Hour*3600, 0).UTC(), Requests: s.Requests, KB: s.kb(), MS: s.MS,
			KBs: perSecond(s.Bytes, s.MS), Outlier: slices.Contains(outliers, s),
		})
	}
	return c
}

// Rates returns the rates of all robots, by robot and hour of the week in Zone.
func (b *Book) Rates(ctx context.Context) ([]HourRate, error) {
	return db.List(ctx, b.db, func(rows *sql.Rows, r *HourRate) error {
		var hour int
		var bytes, ms int64
		err := rows.Scan(&r.Robot, &hour, &r.Requests, &bytes, &ms)
		r.Weekday, r.Hour = time.Weekday((hour/24 + 1) % 7).String()[:3], hour%24
		r.KBs = perSecond(bytes, ms)
		return err
	}, `SELECT robot, hour, requests, bytes, ms FROM rates ORDER BY robot, hour`)
}

// Zone returns the zone in which nights and hours of the week begin.
func (b *Book) Zone() *time.Location { return b.zone }

// ReadLog calls each with the samples of every pair of robot and host, in no order. where is an SQL
// condition on hosts h and costs t; args are its arguments.
func ReadLog(ctx context.Context, q db.Queryer, where string, args []any, each func(robot, host string, list Samples)) error {
	return db.Each(ctx, q, func(rows *sql.Rows) error {
		var robot, host string
		var blob []byte
		if err := rows.Scan(&robot, &host, &blob); err != nil {
			return err
		}
		list, err := parseSamples(blob)
		if err != nil {
			return fmt.Errorf("host %s at robot %s: %w", host, robot, err)
		}
		each(robot, host, list)
		return nil
	}, `
		SELECT t.robot, t.host, t.samples FROM hosts h JOIN costs t ON t.host = h.name
		WHERE t.samples IS NOT NULL AND `+where, args...)
}
