package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// maxConnections is how many connections one process opens. A PostgreSQL server allows a hundred by
// default. SQLite has no limit, but each connection has a cache, and each waits longer if more want
// to write.
const maxConnections = 30

// writers is the advisory lock that every writing transaction holds.
const writers = 0x5368656166 // "Sheaf"

// openPostgres is openAt for PostgreSQL. Its errors do not have the URL's password.
func openPostgres(ctx context.Context, source string, to schema) (*sql.DB, error) {
	config, err := pgx.ParseConfig(source)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err) // pgx leaves the password out
	}
	name := fmt.Sprintf("%s at %s:%d", config.Database, config.Host, config.Port)
	config.RuntimeParams["application_name"] = nameAtStart
	if err := migratePostgres(ctx, config, to); err != nil {
		return nil, fmt.Errorf("database %s: %w", name, err)
	}
	if to.number == 0 {
		config.RuntimeParams["application_name"] = nameAtWork
	}
	db := sql.OpenDB(connector{stdlib.GetConnector(*config, stdlib.OptionAfterConnect(preferIndices))})
	db.SetMaxOpenConns(maxConnections)
	db.SetMaxIdleConns(maxConnections / 3)
	return db, nil
}

// preferIndices tells the server that a row found by an index costs little more than the next row
// of a table, as on an SSD or in memory. By default the server expects a disk with slow seeks, and
// reads all hosts' rows to find the hosts of one robot.
func preferIndices(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, `SET random_page_cost = 1.1`)
	return err
}

// migratePostgres is migrate for one process at a time. Its connections are pgx's own, without the
// translation of connector, because goose uses PostgreSQL's parameters.
func migratePostgres(ctx context.Context, config *pgx.ConnConfig, to schema) (err error) {
	db := stdlib.OpenDB(*config)
	defer func() { err = errors.Join(err, db.Close()) }()
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300)) // tries each second, for five minutes
	if err != nil {
		return err
	}
	// Any program of this version that is at work has brought the schema up to date before.
	others, err := atWork(ctx, db)
	if err != nil {
		return err
	}
	return migrate(ctx, db, to, others, goose.DialectPostgres, func(dir fs.FS) fs.FS { return inPostgres{dir} }, goose.WithSessionLocker(locker))
}

// connector opens connections that accept SQL written for SQLite.
type connector struct{ driver.Connector }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	opened, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	conn, ok := opened.(*stdlib.Conn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a connection is a %T", opened), opened.Close())
	}
	return &connection{conn}, nil
}

// connection makes a connection of pgx behave like one of SQLite.
type connection struct{ *stdlib.Conn }

func (c *connection) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return c.Conn.PrepareContext(ctx, numbered(query))
}

func (c *connection) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.Conn.ExecContext(ctx, numbered(query), args)
}

func (c *connection) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.Conn.QueryContext(ctx, numbered(query), args)
}

// BeginTx begins a transaction. A read-only one sees one state of the database. Any other
// transaction waits until it is the only writer, so rows that it has read do not change until it
// ends.
func (c *connection) BeginTx(ctx context.Context, opt driver.TxOptions) (driver.Tx, error) {
	if opt.ReadOnly {
		opt.Isolation = driver.IsolationLevel(sql.LevelRepeatableRead)
		return c.Conn.BeginTx(ctx, opt)
	}
	tx, err := c.Conn.BeginTx(ctx, opt)
	if err != nil {
		return nil, err
	}
	if _, err := c.Conn.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, []driver.NamedValue{{Ordinal: 1, Value: int64(writers)}}); err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return tx, nil
}

// CheckNamedValue converts booleans to 0 or 1, as the schema has them. It replaces NUL and invalid
// UTF-8 in a text by U+FFFD, since PostgreSQL cannot store them.
func (c *connection) CheckNamedValue(v *driver.NamedValue) (err error) {
	if v.Value, err = driver.DefaultParameterConverter.ConvertValue(v.Value); err != nil {
		return err
	}
	switch x := v.Value.(type) {
	case bool:
		v.Value = int64(0)
		if x {
			v.Value = int64(1)
		}
	case string:
		v.Value = strings.ReplaceAll(strings.ToValidUTF8(x, "\uFFFD"), "\x00", "\uFFFD")
	}
	return nil
}

// numbered replaces SQLite's parameters, ? and ?n, by PostgreSQL's $n. A ? without a number gets
// the number after the highest so far.
func numbered(query string) string {
	if !strings.Contains(query, "?") {
		return query
	}
	var b strings.Builder
	highest, quoted := 0, false
	for n := 0; n < len(query); n++ {
		c := query[n]
		if c == '\'' {
			quoted = !quoted
		}
		if c != '?' || quoted {
			b.WriteByte(c)
			continue
		}
		end := n + 1
		for end < len(query) && '0' <= query[end] && query[end] <= '9' {
			end++
		}
		number, err := strconv.Atoi(query[n+1 : end])
		if err != nil { // a ? without a number
			number = highest + 1
		}
		highest = max(highest, number)
		fmt.Fprintf(&b, "$%d", number)
		n = end - 1
	}
	return b.String()
}

// inPostgres is the folder of the migrations, translated for PostgreSQL.
type inPostgres struct{ fs.FS }

func (d inPostgres) Open(name string) (fs.File, error) {
	f, err := d.FS.Open(name)
	if err != nil || !strings.HasSuffix(name, ".sql") {
		return f, err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &migration{f, strings.NewReader(translated(string(text)))}, nil
}

// migration is a migration's file with the translated text.
type migration struct {
	fs.File
	text *strings.Reader
}

func (m *migration) Read(p []byte) (int, error) { return m.text.Read(p) }

// translated replaces SQLite's words by PostgreSQL's. In both databases text is compared by its
// bytes.
func translated(text string) string {
	for _, word := range [][2]string{
		{`\) STRICT(, WITHOUT ROWID)?;`, `);`},
		{`\bINTEGER PRIMARY KEY\b`, `BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY`},
		{`\bINTEGER\b`, `BIGINT`},
		{`\bBLOB\b`, `BYTEA`},
		{`\bREAL\b`, `DOUBLE PRECISION`},
		{`\bTEXT\b`, `TEXT COLLATE "C"`},
	} {
		text = regexp.MustCompile(word[0]).ReplaceAllString(text, word[1])
	}
	return text
}

// Analyze makes PostgreSQL collect statistics about tables of d. It does so only if the number of
// changed rows is a tenth of the first table's rows or more. q is d, or a transaction, whose own
// rows then count, too. Without statistics PostgreSQL may plan to read a whole table for each row
// of another table. Its autovacuum collects them only once a minute, and only for committed rows.
// SQLite needs no statistics: it plans by the existing indices. Analyze reports whether it
// collected the statistics; with SQLite it always reports true.
func Analyze(ctx context.Context, d *sql.DB, q interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, changed int64, tables ...string) (done bool, err error) {
	if !isPostgres(d) {
		return true, nil
	}
	var known float64 // number of rows by the statistics; -1: there are none
	if err := q.QueryRowContext(ctx, `SELECT reltuples FROM pg_class WHERE oid = CAST(? AS regclass)`, tables[0]).Scan(&known); err != nil {
		return false, fmt.Errorf("analyze: %w", err)
	}
	if float64(changed) < known/10 {
		return false, nil
	}
	if _, err := q.ExecContext(ctx, `ANALYZE `+strings.Join(tables, ", ")); err != nil {
		return false, fmt.Errorf("analyze: %w", err)
	}
	return true, nil
}
