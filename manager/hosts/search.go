package hosts

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"sheaf/internal/db"
)

// Filter selects hosts. Empty fields select all.
type Filter struct {
	State      State
	Robot      string // the robot that has the host now
	FoundBy    string // the robot that found it
	Domain     string // this host and all below it
	Part       string // a part of the host's name
	Unanswered bool   // the last visit got no answer

	name string // selects this host only
}

// within returns an SQL condition on hosts, to be appended to another condition, and its arguments.
// It ignores Robot.
func (f Filter) within() (condition string, args []any) {
	var all []string
	add := func(text string, values ...any) { all, args = append(all, text), append(args, values...) }
	if f.name != "" {
		add(`name = ?`, f.name)
	}
	if f.State != "" {
		add(`state = ?`, f.State)
	}
	if f.FoundBy != "" {
		add(`source = ?`, f.FoundBy)
	}
	if d := strings.ToLower(f.Domain); d != "" {
		if suffix, _ := publicsuffix.PublicSuffix(d); suffix != d { // nobody has registered jp or ac.jp
			add(`domain = ?`, Registered(d))
		}
		add(`(name = ? OR name LIKE ? ESCAPE '\' OR name LIKE ? ESCAPE '\' OR name LIKE ? ESCAPE '\')`,
			d, `%.`+db.Literally(d), db.Literally(d)+`:%`, `%.`+db.Literally(d)+`:%`)
	}
	if f.Part != "" {
		add(`name LIKE ? ESCAPE '\'`, `%`+db.Literally(strings.ToLower(f.Part))+`%`)
	}
	if f.Unanswered {
		add(`name IN (SELECT v.host FROM visits v WHERE v.why <> '' AND NOT EXISTS (SELECT 1 FROM visits l WHERE l.host = v.host AND l.at > v.at))`)
	}
	for _, one := range all {
		condition += ` AND ` + one
	}
	return condition, args
}

// withRobot is within, but includes Robot. It is for queries that count.
func (f Filter) withRobot() (condition string, args []any) {
	condition, args = f.within()
	if f.Robot != "" {
		condition += ` AND name IN (SELECT host FROM assignments WHERE robot = ? AND to_generation IS NULL)`
		args = append(args, f.Robot)
	}
	return condition, args
}

// Group counts the hosts of a registered domain in each state.
type Group struct {
	Domain   string `json:"domain"`
	Hosts    int64  `json:"hosts"`
	Accepted int64  `json:"accepted"`
	Pending  int64  `json:"pending"`
	Refused  int64  `json:"refused"`
}

// Groups counts the hosts that a filter selects, by registered domain. It returns up to limit
// domains whose names follow after, in the order of their names.
func (r *Registry) Groups(ctx context.Context, f Filter, after string, limit int) ([]Group, error) {
	condition, args := f.withRobot()
	list, err := db.List(ctx, r.db, func(rows *sql.Rows, g *Group) error {
		return rows.Scan(&g.Domain, &g.Hosts, &g.Accepted, &g.Pending, &g.Refused)
	}, `SELECT domain, COUNT(*), SUM(CASE WHEN state = 'accepted' THEN 1 ELSE 0 END), SUM(CASE WHEN state = 'pending' THEN 1 ELSE 0 END),
			SUM(CASE WHEN state = 'refused' THEN 1 ELSE 0 END)
		FROM hosts WHERE domain > ?`+condition+` GROUP BY domain ORDER BY domain LIMIT ?`, slices.Concat([]any{after}, args, []any{limit})...)
	if err != nil {
		return nil, fmt.Errorf("hosts by domain: %w", err)
	}
	return list, nil
}

// CountOf counts the hosts that a filter selects, up to most.
func (r *Registry) CountOf(ctx context.Context, f Filter, most int) (n int, err error) {
	condition, args := f.withRobot()
	err = r.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM hosts WHERE name > ''`+condition+` LIMIT ?) s`, append(args, most)...).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count hosts: %w", err)
	}
	return n, nil
}
