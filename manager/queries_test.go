package manager_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"modernc.org/sqlite"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
	"sheaf/manager/hosts"
)

// No query of the manager's daily work reads a whole large table, or all accepted hosts, unless it
// is for all of them. SQLite has no statistics here, as in a service that was just installed.
func TestQueriesUseIndices(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	source := filepath.Join(t.TempDir(), "control.db")
	d, err := db.Open(t.Context(), source)
	testkit.Must(t, err)
	testkit.Must(t, d.Close())
	record := &recorder{queries: map[string]int{}}
	d = sql.OpenDB(connector{record, "file:" + source + "?_txlock=immediate&_pragma=busy_timeout(15000)"})
	t.Cleanup(func() { d.Close() })
	dailyWork(t, d)
	for _, query := range record.list() {
		rows, err := d.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, make([]any, record.queries[query])...)
		testkit.Must(t, err)
		var reads []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			testkit.Must(t, rows.Scan(&id, &parent, &unused, &detail))
			reads = append(reads, detail)
		}
		testkit.Must(t, rows.Close())
		if slices.ContainsFunc(reads, func(step string) bool { return readsAll(query, step) }) && !isForAll(query) {
			t.Errorf("%s\n%s", strings.Join(strings.Fields(query), " "), strings.Join(reads, "\n"))
		}
	}
	t.Run("postgres", func(t *testing.T) { inPostgres(t, record.list()) })
}

// dailyWork does what a manager does on a day.
func dailyWork(t *testing.T, d *sql.DB) {
	s := newAtSize(t, d, 40, 4)
	s.play()
	ctx := t.Context()
	_, err := s.m.Roster.Robots(ctx)
	testkit.Must(t, err)
	_, err = s.m.Hosts.Hosts(ctx, hosts.Filter{State: hosts.Pending}, "h", 10)
	testkit.Must(t, err)
	_, err = s.m.Hosts.RefreshAddresses(ctx, time.Now().Add(time.Hour))
	testkit.Must(t, err)
	testkit.Must(t, s.m.Hosts.RemoveHost(ctx, "h0000001.test"))
	testkit.Must(t, s.m.Roster.Lapse(ctx, time.Now()))
}

// inPostgres has PostgreSQL plan queries and fails for those that no index serves. The tables are
// empty, so by itself PostgreSQL would read them whole; other ways are forbidden as far as there
// are.
func inPostgres(t *testing.T, queries []string) {
	d, err := db.Open(t.Context(), dbtest.Postgres(t))
	testkit.Must(t, err)
	t.Cleanup(func() { d.Close() })
	d.SetMaxOpenConns(1) // the settings are the connection's
	_, err = d.Exec(`SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET plan_cache_mode = force_generic_plan`)
	testkit.Must(t, err)
	for n, query := range queries {
		_, err := d.Exec(fmt.Sprintf(`PREPARE q%d AS %s`, n, query))
		if err != nil {
			t.Errorf("%s\n%v", query, err)
			continue
		}
		var parameters int
		testkit.Must(t, d.QueryRow(`SELECT COALESCE(ARRAY_LENGTH(parameter_types, 1), 0) FROM pg_prepared_statements WHERE name = ?`, fmt.Sprintf("q%d", n)).Scan(&parameters))
		execute := fmt.Sprintf(`EXPLAIN (COSTS OFF) EXECUTE q%d`, n)
		if parameters > 0 {
			execute += `(NULL` + strings.Repeat(`, NULL`, parameters-1) + `)`
		}
		reads, err := db.Column[string](t.Context(), d, execute)
		testkit.Must(t, err)
		if slices.ContainsFunc(reads, func(step string) bool { return wholeInPostgres.MatchString(step) }) && !isForAll(query) {
			t.Errorf("%s\n%s", strings.Join(strings.Fields(query), " "), strings.Join(reads, "\n"))
		}
	}
}

// wholeInPostgres finds the step of a plan that reads a whole large table.
var wholeInPostgres = regexp.MustCompile(`Seq Scan on (hosts|seeds|assignments|costs|progress|probes|holds|handovers)\b`)

// isForAll reports whether a query is for all hosts, or reads little of a table.
func isForAll(query string) bool {
	whole := []string{ // queries that are for all hosts, or read small tables
		"AND 1 = 1",                       // the day's plan, of all hosts
		"SELECT DISTINCT host FROM costs", // a number of hosts from the beginning
		"FROM probes WHERE done",          // what robots were asked to measure, a few hosts each
		"p.state = 'begun' AND b.phase",   // for the day's plan: the hosts that all robots have begun
		"FROM holds GROUP BY robot",       // for a list of all robots
	}
	return slices.ContainsFunc(whole, func(s string) bool { return strings.Contains(query, s) })
}

// large finds the large tables of a query and the names that it gives them.
var large = regexp.MustCompile(`\b(hosts|seeds|assignments|costs|progress|probes|holds|handovers)\b(?:\s+(?:AS\s+)?(\w+))?`)

// few finds the indices that have only a small part of a large table.
var few = regexp.MustCompile(`\bhosts_(waiting|review|several|set|pinned)\b|\bprobes_waiting\b`)

// limited finds a query that reads a limited part of a large table.
var limited = regexp.MustCompile(`FROM holds WHERE robot <> \? LIMIT \?`)

// readsAll reports whether a step of SQLite's plan for a query reads a large table or all accepted
// hosts.
func readsAll(query, step string) bool {
	scanned, isScan := strings.CutPrefix(step, "SCAN ")
	name, _, _ := strings.Cut(scanned, " ")
	for _, table := range large.FindAllStringSubmatch(query, -1) {
		if isScan && (name == table[1] || name == table[2]) && !few.MatchString(step) && !limited.MatchString(query) {
			return true
		}
	}
	return strings.Contains(step, "hosts_by_state (state=?)")
}

// recorder notes queries and how many parameters each has.
type recorder struct {
	mu      sync.Mutex
	queries map[string]int
}

func (r *recorder) note(query string, parameters int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queries[query] = parameters
}

func (r *recorder) list() (queries []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for q := range r.queries {
		verb, _, _ := strings.Cut(strings.TrimSpace(q), " ")
		if slices.Contains([]string{"SELECT", "UPDATE", "DELETE", "INSERT", "WITH"}, strings.TrimSpace(verb)) {
			queries = append(queries, q)
		}
	}
	slices.Sort(queries)
	return queries
}

// connector opens SQLite connections whose queries are recorded.
type connector struct {
	record *recorder
	source string
}

func (c connector) Connect(context.Context) (driver.Conn, error) {
	inner, err := (&sqlite.Driver{}).Open(c.source)
	if err != nil {
		return nil, err
	}
	return recorded{inner.(sqliteConn), c.record}, nil
}

func (c connector) Driver() driver.Driver { return &sqlite.Driver{} }

type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

type recorded struct {
	sqliteConn
	record *recorder
}

func (c recorded) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.record.note(query, len(args))
	return c.sqliteConn.ExecContext(ctx, query, args)
}

func (c recorded) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.record.note(query, len(args))
	return c.sqliteConn.QueryContext(ctx, query, args)
}
