package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"modernc.org/sqlite"
)

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
