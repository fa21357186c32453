package audit

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"sheaf/internal/db"
)

// Filter selects rows. The zero value selects all.
type Filter struct {
	Since, Until time.Time // rows at Since or later, and before Until
	Kind         Kind
	Who          string // name of the actor
	Act          Act
	Object       string // a part of the object, in small or capital letters
	Outcome      Outcome
	Before       int64 // only smaller IDs, to page towards older rows
	Limit        int   // default DefaultLimit
}

// outcome is the SQL expression for a row's Outcome.
const outcome = "CASE begun WHEN 1 THEN 'begun' ELSE outcome END"

func (f Filter) where() (string, []any) {
	terms, args := []string{"TRUE"}, []any(nil)
	add := func(term string, arg any) {
		terms, args = append(terms, term), append(args, arg)
	}
	text := func(s string) string { return short(s, maxObject) } // cut as in stored rows
	if !f.Since.IsZero() {
		add("at >= ?", db.Millis(f.Since))
	}
	if !f.Until.IsZero() {
		add("at < ?", db.Millis(f.Until))
	}
	if f.Kind != "" {
		add("kind = ?", string(f.Kind))
	}
	if f.Who != "" {
		add("name = ?", short(f.Who, maxName))
	}
	if f.Act != "" {
		add("act = ?", string(f.Act))
	}
	if f.Object != "" {
		add(`LOWER(object) LIKE LOWER(?) ESCAPE '\'`, "%"+db.Literally(text(f.Object))+"%")
	}
	if f.Outcome != "" {
		add(outcome+" = ?", string(f.Outcome))
	}
	if f.Before > 0 {
		add("id < ?", f.Before)
	}
	return strings.Join(terms, " AND "), args
}

// Page returns the selected rows, newest first, and the position of the next page.
func (l *Log) Page(ctx context.Context, f Filter) (doc RowList, err error) {
	f.Limit = cmp.Or(f.Limit, DefaultLimit)
	where, args := f.where()
	doc.Rows, err = db.List(ctx, l.db, func(rows *sql.Rows, r *Row) error {
		return rows.Scan(&r.ID, db.At(&r.At), (*string)(&r.Kind), &r.Name, &r.Address, (*string)(&r.Act), &r.Object, (*string)(&r.Outcome), &r.Reason, &r.Request, &r.Count)
	}, `SELECT id, at, kind, name, address, act, object, `+outcome+`, reason, request, count FROM audit WHERE `+where+` ORDER BY id DESC LIMIT ?`,
		append(args, f.Limit+1)...)
	if err != nil {
		return RowList{}, fmt.Errorf("audit log: %w", err)
	}
	if len(doc.Rows) > f.Limit {
		doc.Rows = doc.Rows[:f.Limit]
		doc.Next = doc.Rows[f.Limit-1].ID
	}
	return doc, nil
}
