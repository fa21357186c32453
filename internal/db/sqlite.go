package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/libc"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

func openSQLite(ctx context.Context, path string, to schema) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	reservePages()
	db := sql.OpenDB(&turns{source: dsn(path), longest: busyTimeout, turn: make(chan struct{}, 1)})
	err = check(ctx, db)
	if err == nil {
		err = migrate(ctx, db, to, nil, goose.DialectSQLite3, func(dir fs.FS) fs.FS { return dir })
	}
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("database %s: %w", path, damaged(err))
	}
	db.SetMaxOpenConns(maxConnections)
	db.SetMaxIdleConns(idleConnections)
	return db, nil
}

// idleConnections is the number of SQLite connections that stay open. A new connection must first
// read the schema, and its cache is empty.
const idleConnections = 8

func dsn(path string) string {
	q := url.Values{
		"_pragma": {
			fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), // first, since the next one may have to wait
			"journal_mode(WAL)",
			"synchronous(FULL)",
			"foreign_keys(1)",
			"cache_size(-16384)", // KiB of a connection; the default, 2 MiB, is too little for a list of 1,000 hosts
		},
		"_txlock": {"immediate"},
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	return u.String()
}

// turns opens connections to a SQLite file. The connections write one at a time, in the order in
// which they ask. By itself SQLite lets a connection sleep for up to 0.1 s while another one
// writes. The connection sleeps on even if the other ends sooner, and later connections overtake
// it.
//
// A connection that has waited for t.longest gets an error. Outside a transaction, a prepared
// statement, or one that returns rows, takes no turn, and waits as SQLite does.
type turns struct {
	driver  sqlite.Driver
	source  string
	longest time.Duration
	turn    chan struct{} // holds a value while a connection writes
}

// Connect implements driver.Connector.
func (t *turns) Connect(context.Context) (driver.Conn, error) {
	c, err := t.driver.Open(t.source)
	if err != nil {
		return nil, err
	}
	return &writer{sqliteConn: c.(sqliteConn), turns: t, statements: statements{kept: map[string]sqliteStatement{}}}, nil
}

// Driver implements driver.Connector.
func (t *turns) Driver() driver.Driver { return &t.driver }

// take waits for a turn to write. The caller ends the turn with done.
func (t *turns) take(ctx context.Context) (done func(), err error) {
	late := time.NewTimer(t.longest)
	defer late.Stop()
	select {
	case t.turn <- struct{}{}:
		return func() { <-t.turn }, nil
	case <-late.C:
		return nil, fmt.Errorf("others have been writing to the database for %v", t.longest)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// sqliteConn has the methods of a connection to SQLite that database/sql uses.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// writer is a connection that takes a turn for each transaction that may write, and for each
// ExecContext outside a transaction. It keeps prepared statements.
type writer struct {
	sqliteConn
	turns      *turns
	within     bool // in a transaction
	statements statements
}

func (w *writer) BeginTx(ctx context.Context, opt driver.TxOptions) (driver.Tx, error) {
	done := func() {}
	if !opt.ReadOnly {
		var err error
		if done, err = w.turns.take(ctx); err != nil {
			return nil, err
		}
	}
	tx, err := w.sqliteConn.BeginTx(ctx, opt)
	if err != nil {
		done()
		return nil, err
	}
	w.within = true
	return &transaction{Tx: tx, end: func() { w.within = false; done() }}, nil
}

func (w *writer) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if !w.within {
		done, err := w.turns.take(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	st, err := w.statements.take(ctx, w.sqliteConn, query)
	if err != nil {
		return nil, err
	}
	res, err := st.ExecContext(ctx, args)
	return res, errors.Join(err, w.statements.keep(query, st))
}

func (w *writer) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	st, err := w.statements.take(ctx, w.sqliteConn, query)
	if err != nil {
		return nil, err
	}
	keep := func() error { return w.statements.keep(query, st) }
	r, err := st.QueryContext(ctx, args)
	if err != nil {
		return nil, errors.Join(err, keep())
	}
	return &rows{Rows: r, keep: keep}, nil
}

func (w *writer) Close() error {
	w.statements.close()
	return w.sqliteConn.Close()
}

// transaction is a driver.Tx that calls end after its commit or rollback.
type transaction struct {
	driver.Tx
	end func()
}

func (t *transaction) Commit() error {
	defer t.end()
	return t.Tx.Commit()
}

func (t *transaction) Rollback() error {
	defer t.end()
	return t.Tx.Rollback()
}

// maxText is how many bytes of SQL a SQLite connection keeps prepared. A prepared statement takes
// some 30 bytes of memory for each byte of its SQL.
const maxText = 32 << 10

// sqliteStatement has the methods of a prepared statement of SQLite that database/sql uses.
type sqliteStatement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// statements keeps a connection's prepared statements, because SQLite takes longer to prepare a
// statement than to find a row by its key. PostgreSQL's driver does the same by itself. A statement
// in use is not among them, so the same SQL may be executed again while its rows are being read.
type statements struct {
	kept map[string]sqliteStatement // by SQL
	text int                        // bytes of the SQL of all
}

// take returns a statement that nobody else uses. The caller gives it back with keep.
func (s *statements) take(ctx context.Context, c driver.ConnPrepareContext, query string) (sqliteStatement, error) {
	if kept, ok := s.kept[query]; ok {
		s.forget(query)
		return kept, nil
	}
	prepared, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return prepared.(sqliteStatement), nil
}

// keep keeps a statement for the next take. Where room is short, it closes any others.
func (s *statements) keep(query string, done sqliteStatement) error {
	if _, ok := s.kept[query]; ok {
		return done.Close()
	}
	s.kept[query] = done
	s.text += len(query)
	for other, st := range s.kept {
		if s.text <= maxText {
			break
		}
		s.forget(other)
		if err := st.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (s *statements) forget(query string) {
	delete(s.kept, query)
	s.text -= len(query)
}

// close closes all statements. A connection must do so before its own end.
func (s *statements) close() {
	for _, st := range s.kept {
		st.Close()
	}
}

// rows are the rows of a statement. Close gives the statement back.
type rows struct {
	driver.Rows
	keep func() error
}

func (r *rows) Close() error {
	return errors.Join(r.Rows.Close(), r.keep())
}

// reservePages gives SQLite 9 MiB of memory for the pages that all its connections have read.
//
// When one connection writes, the others forget all pages that they have cached. Without the
// reserve they give the memory back to the system and ask for it anew, which made a list of 1,000
// hosts five times as slow. Pages beyond the reserve are handled as without it. If the process has
// used SQLite before, there is no reserve.
//
// See https://sqlite.org/malloc.html, SQLITE_CONFIG_PAGECACHE.
var reservePages = sync.OnceFunc(func() {
	const pages = 2048
	const size = 4096 + 512 // a page, and SQLite's notes about it
	tls := libc.NewTLS()
	defer tls.Close()
	memory := libc.Xmalloc(tls, pages*size)
	args := libc.NewVaList(memory, int32(size), int32(pages))
	defer libc.Xfree(tls, args)
	if sqlite3.Xsqlite3_config(tls, sqlite3.SQLITE_CONFIG_PAGECACHE, args) != sqlite3.SQLITE_OK {
		libc.Xfree(tls, memory)
	}
})
