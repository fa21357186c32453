package db

import (
	"context"
	"database/sql/driver"
	"errors"
)

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
