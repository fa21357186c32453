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

// maxConnections is how many connections one process opens, of the hundred that a
// PostgreSQL server gives if it is not told otherwise.
const maxConnections = 30

// writers is the advisory lock that every writing transaction holds.
const writers = 0x5368656166 // "Sheaf"

// openPostgres opens the database that the URL names.
func openPostgres(ctx context.Context, source string, schema int64) (*sql.DB, error) {
	config, err := pgx.ParseConfig(source)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err) // pgx leaves the password out
	}
	name := fmt.Sprintf("%s at %s:%d", config.Database, config.Host, config.Port)
	if err := migratePostgres(ctx, config, schema); err != nil {
		return nil, fmt.Errorf("database %s: %w", name, err)
	}
	db := sql.OpenDB(connector{stdlib.GetConnector(*config)})
	db.SetMaxOpenConns(maxConnections)
	db.SetMaxIdleConns(maxConnections / 3)
	return db, nil
}

// migratePostgres is migrate, by one process at a time, over connections of pgx's
// own: goose speaks PostgreSQL.
func migratePostgres(ctx context.Context, config *pgx.ConnConfig, schema int64) (err error) {
	db := stdlib.OpenDB(*config)
	defer func() { err = errors.Join(err, db.Close()) }()
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return err
	}
	return migrate(ctx, db, schema, goose.DialectPostgres, func(dir fs.FS) fs.FS { return inPostgres{dir} }, goose.WithSessionLocker(locker))
}

// connector opens connections that take the rooms' SQL as SQLite takes it.
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

// connection makes of pgx's what Open promises of both databases.
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

// BeginTx begins a transaction that sees one state of the database, if it is
// read-only; else one that waits for its turn and is then the only one that writes,
// so that what it has read stays true until it ends.
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

// CheckNamedValue lets truth be 0 or 1, as the schema has it. Text that PostgreSQL
// cannot hold, with a NUL or not in UTF-8, is marked where it cannot.
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

// numbered turns SQLite's parameters, ? and ?n, into PostgreSQL's $n. A ? without a
// number is the one after the highest before it.
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
		if err != nil { // there is none
			number = highest + 1
		}
		highest = max(highest, number)
		fmt.Fprintf(&b, "$%d", number)
		n = end - 1
	}
	return b.String()
}

// inPostgres is the migrations as PostgreSQL takes them. They are written once, in
// SQL that is the same but for the words of translated.
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

// migration is a file with another text.
type migration struct {
	fs.File
	text *strings.Reader
}

func (m *migration) Read(p []byte) (int, error) { return m.text.Read(p) }

// translated puts PostgreSQL's words for SQLite's. In both, text is compared by its bytes.
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
