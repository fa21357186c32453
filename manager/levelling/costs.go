package levelling

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/manager/assign"
	"sheaf/manager/balance"
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

// Sample is what a host cost a robot within one hour of the clock.
type Sample struct {
	Hour     int64 // since 1970, UTC
	Requests int64
	Bytes    int64 // of the answers
	MS       int64 // of transfer
}

// count adds another sample's figures.
func (s *Sample) count(o Sample) {
	s.Requests, s.Bytes, s.MS = s.Requests+o.Requests, s.Bytes+o.Bytes, s.MS+o.MS
}

func (s Sample) kb() float64 { return float64(s.Bytes) / 1024 }

// msPerKB is the transfer time of 1 KB. The whole sample counts as at least 1 ms.
func (s Sample) msPerKB() float64 { return max(float64(s.MS), 1) / s.kb() }

// Samples are the samples of one host at one robot, one for each hour in which the robot visited
// it, the oldest first. The database keeps them as a blob of uvarints, four for each sample:
// hours since the sample before (for the first: since 1970), requests, bytes, ms.
type Samples []Sample

// maxSamples is how many samples are kept: four weeks with one hour a night.
const maxSamples = 28

var errSamples = errors.New("the samples in table costs cannot be read")

func parseSamples(blob []byte) (list Samples, err error) {
	hour := int64(0)
	for len(blob) > 0 {
		var f [4]int64
		for i := range f {
			v, n := binary.Uvarint(blob)
			if n <= 0 || v > math.MaxInt64 {
				return nil, errSamples
			}
			f[i], blob = int64(v), blob[n:]
		}
		hour += f[0]
		list = append(list, Sample{hour, f[1], f[2], f[3]})
	}
	return list, nil
}

func (list Samples) blob() []byte {
	var b []byte
	hour := int64(0)
	for _, s := range list {
		for _, v := range [4]int64{s.Hour - hour, s.Requests, s.Bytes, s.MS} {
			b = binary.AppendUvarint(b, uint64(v))
		}
		hour = s.Hour
	}
	return b
}

// Add returns the samples with s added, to the sample of the same hour if there is one. If there
// are more than maxSamples, the oldest are dropped.
func (list Samples) Add(s Sample) Samples {
	i, found := slices.BinarySearchFunc(list, s.Hour, func(have Sample, hour int64) int { return cmp.Compare(have.Hour, hour) })
	if found {
		list[i].count(s)
		return list
	}
	list = slices.Insert(list, i, s)
	if n := len(list) - maxSamples; n > 0 {
		list = slices.Delete(list, 0, n)
	}
	return list
}

// outlier is the factor by which a sample's ms per KB must differ from the median to be left out.
// Paper 001 (6.2) saw single hosts take ten times as long on one weekday as on another. With fewer
// than three samples none is an outlier.
const outlier = 4

// Distance returns the host's distance in ms per KB, without outliers, and the outliers. It ignores
// samples below 1 KB, and returns 0 if there are no larger samples.
func (list Samples) Distance() (msPerKB float64, outliers []Sample) {
	rated := slices.DeleteFunc(slices.Clone(list), func(s Sample) bool { return s.Bytes < 1024 })
	if len(rated) == 0 {
		return 0, nil
	}
	slices.SortStableFunc(rated, func(a, b Sample) int { return cmp.Compare(a.msPerKB(), b.msPerKB()) })
	median := rated[len(rated)/2].msPerKB()
	if len(rated)%2 == 0 {
		median = math.Sqrt(median * rated[len(rated)/2-1].msPerKB())
	}
	var ms, kb float64
	for _, s := range rated {
		if rate := s.msPerKB(); len(rated) >= 3 && (rate > median*outlier || rate < median/outlier) {
			outliers = append(outliers, s)
			continue
		}
		ms, kb = ms+max(float64(s.MS), 1), kb+s.kb()
	}
	if kb == 0 {
		return median, outliers
	}
	return ms / kb, outliers
}

// Nightly returns the median KB and the median requests of a night. A night is a calendar day in
// the zone.
func (list Samples) Nightly(zone *time.Location) (kb, requests float64) {
	sums := map[int]Sample{}
	for _, s := range list {
		t := time.Unix(s.Hour*3600, 0).In(zone)
		day := t.Year()*1000 + t.YearDay()
		sum := sums[day]
		sum.count(s)
		sums[day] = sum
	}
	if len(sums) == 0 {
		return 0, 0
	}
	var kbs, counts []float64
	for _, s := range sums {
		kbs, counts = append(kbs, s.kb()), append(counts, float64(s.Requests))
	}
	return balance.Median(kbs), balance.Median(counts)
}

// LastNight returns the requests of the twelve hours up to the last sample, and that sample's
// hour. It returns zeros if there are no samples.
func (list Samples) LastNight() (requests, hour int64) {
	if len(list) == 0 {
		return 0, 0
	}
	hour = list[len(list)-1].Hour
	for _, s := range list {
		if s.Hour > hour-12 {
			requests += s.Requests
		}
	}
	return requests, hour
}
