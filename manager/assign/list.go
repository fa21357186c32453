package assign

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
)

// ListTag returns the entity tag of a robot's list at a generation.
func ListTag(robot string, generation int64) string {
	return fmt.Sprintf(`"%s-%d"`, robot, generation)
}

// TagGeneration returns the generation in a tag that ListTag made for the robot. ok is false for
// any other tag.
func TagGeneration(robot, tag string) (generation int64, ok bool) {
	text, ok := strings.CutPrefix(strings.Trim(tag, `"`), robot+"-")
	if !ok {
		return 0, false
	}
	generation, err := strconv.ParseInt(text, 10, 64)
	return generation, err == nil
}

// List returns the robot's list as it is now, ordered by host and URL, and the generation that
// last changed it.
func (a *Assignments) List(ctx context.Context, robot string) (generation int64, lines []wire.HostLine, err error) {
	err = db.ReadOnly(ctx, a.db, func(tx *sql.Tx) error {
		if generation, err = listGeneration(ctx, tx, robot); err != nil {
			return err
		}
		shares, err := sharesOf(ctx, tx, robot)
		if err != nil {
			return err
		}
		waits, err := waitingFor(ctx, tx, robot)
		if err != nil {
			return err
		}
		handovers, err := handoversFor(ctx, tx, robot)
		if err != nil {
			return err
		}
		paces, err := pacesFor(ctx, tx, robot)
		if err != nil {
			return err
		}
		omits, err := omitsFor(ctx, tx, robot)
		if err != nil {
			return err
		}
		var names []string // host of each line
		lines, err = db.List(ctx, tx, func(rows *sql.Rows, l *wire.HostLine) error {
			var host string
			err := rows.Scan(&host, &l.URL, &l.Referer, &l.Depth)
			l.Share, l.Wait = shares[host], waits[host]
			l.Interval, l.Shortest, l.RunPages = paces[host].interval, paces[host].shortest, paces[host].pages
			if !l.Wait && !l.Share.Several() {
				l.Handover = handovers[host]
			}
			names = append(names, host)
			return err
		}, `
			SELECT a.host, s.url, s.referer, s.depth FROM assignments a JOIN seeds s ON s.host = a.host
			WHERE a.robot = ? AND a.to_generation IS NULL ORDER BY a.host`, robot)
		orderByURL(lines, names)
		lines = omit(lines, omits)
		return err
	})
	if err != nil {
		return 0, nil, fmt.Errorf("list of robot %s: %w", robot, err)
	}
	return generation, lines, nil
}

// orderByURL orders the lines of each host by URL. The lines of one host stand together; names has
// the host of each line. If SQLite ordered them, it would start a sorter for each host. That takes
// a fifth of a list's time.
func orderByURL(lines []wire.HostLine, names []string) {
	for from, to := 0, 0; from < len(lines); from = to {
		for to < len(lines) && names[to] == names[from] {
			to++
		}
		slices.SortFunc(lines[from:to], func(a, b wire.HostLine) int { return strings.Compare(a.URL, b.URL) })
	}
}

// ListGeneration returns the generation that last changed the robot's list.
func (a *Assignments) ListGeneration(ctx context.Context, robot string) (int64, error) {
	return listGeneration(ctx, a.db, robot)
}

func listGeneration(ctx context.Context, q db.Queryer, robot string) (g int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT list_generation FROM robots WHERE name = ?`, robot).Scan(&g)
	return g, err
}

// CurrentGeneration returns the number of the latest generation.
func (a *Assignments) CurrentGeneration(ctx context.Context) (n int64, err error) {
	err = a.db.QueryRowContext(ctx, `SELECT number FROM generation`).Scan(&n)
	return n, err
}

// sharesOf returns the robot's shares of replicated hosts, by host. CROSS JOIN makes SQLite begin
// with the replicated hosts, which are few.
func sharesOf(ctx context.Context, tx *sql.Tx, robot string) (map[string]wire.Share, error) {
	shares := map[string]wire.Share{}
	err := db.Each(ctx, tx, func(rows *sql.Rows) error {
		var host string
		var parts int
		var s wire.Share
		if err := rows.Scan(&host, &parts, &s.Of, &s.Part); err != nil {
			return err
		}
		if s.Of > 1 {
			s.Split = parts > 1
			shares[host] = s
		}
		return nil
	}, `
		SELECT h.name, MAX(h.parts), COUNT(*), SUM(CASE WHEN o.slot < a.slot THEN 1 ELSE 0 END)
		FROM hosts h CROSS JOIN assignments a CROSS JOIN assignments o
		WHERE (h.copies > 1 OR h.parts > 1) AND a.host = h.name AND a.robot = ? AND a.to_generation IS NULL
			AND o.host = h.name AND o.to_generation IS NULL
		GROUP BY h.name`, robot)
	return shares, err
}

// pace is how often a host is visited by an operator's order. Zero: as the robot's settings say.
type pace struct {
	interval, shortest time.Duration
	pages              int
}

// pacesFor returns the paces that operators have set for the robot's hosts, by host. CROSS JOIN
// makes SQLite begin with the hosts for which something is set, which are few.
func pacesFor(ctx context.Context, tx *sql.Tx, robot string) (map[string]pace, error) {
	return db.Map(ctx, tx, func(rows *sql.Rows, host *string, p *pace) error {
		var ms, shortest int64
		err := rows.Scan(host, &ms, &shortest, &p.pages)
		p.interval, p.shortest = time.Duration(ms)*time.Millisecond, time.Duration(shortest)*time.Millisecond
		return err
	}, `
		SELECT h.name, h.interval_ms, h.shortest_ms, h.run_pages FROM hosts h CROSS JOIN assignments a
		WHERE (h.interval_ms > 0 OR h.shortest_ms > 0 OR h.run_pages > 0) AND a.host = h.name AND a.robot = ? AND a.to_generation IS NULL`, robot)
}

// omitsFor returns the paths that the robot must leave out, by host.
func omitsFor(ctx context.Context, tx *sql.Tx, robot string) (map[string][]string, error) {
	found := map[string][]string{}
	return found, db.Each(ctx, tx, func(rows *sql.Rows) error {
		var host, path string
		err := rows.Scan(&host, &path)
		found[host] = append(found[host], path)
		return err
	}, `
		SELECT p.host, p.path FROM refused_prefixes p CROSS JOIN assignments a
		WHERE a.host = p.host AND a.robot = ? AND a.to_generation IS NULL ORDER BY p.host, p.path`, robot)
}

// omit adds to a list the paths that robots must leave out. The first line of a host gets the
// host's first path; a copy of this line follows for each further path.
func omit(lines []wire.HostLine, paths map[string][]string) []wire.HostLine {
	if len(paths) == 0 {
		return lines
	}
	var out []wire.HostLine
	for _, l := range lines {
		host := weburl.Host(l.URL)
		of := paths[host]
		delete(paths, host)
		if len(of) == 0 {
			out = append(out, l)
		}
		for _, path := range of {
			l.Omit = path
			out = append(out, l)
		}
	}
	return out
}

// SetShares notes whether the robot's program can collect a share of a host's URLs. A change gives
// the robot a new list, and marks all split hosts for review.
func (a *Assignments) SetShares(ctx context.Context, robot string, able bool) error {
	var known bool
	if err := a.db.QueryRowContext(ctx, `SELECT shares FROM robots WHERE name = ?`, robot).Scan(&known); err != nil || known == able {
		return err
	}
	return a.Change(ctx, func(t *Tx) error {
		if _, err := t.Exec(ctx, `UPDATE robots SET shares = ? WHERE name = ?`, able, robot); err != nil {
			return err
		}
		t.Touch(robot)
		_, err := t.Exec(ctx, `UPDATE hosts SET review = 1 WHERE parts > 1`)
		return err
	})
}
