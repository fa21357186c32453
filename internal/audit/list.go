package audit

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/display"
	"sheaf/internal/problem"
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

// RowList is the answer of GET /v1/audit: rows, newest first. The next page is at ?before=<Next>.
type RowList struct {
	Rows []Row `json:"rows"`
	Next int64 `json:"next,omitempty"`
}

// DefaultLimit is the number of rows in a page if the query gives no limit.
const DefaultLimit = 100

// Query is the query of GET /v1/audit.
type Query struct {
	Since   string  `query:"since" doc:"only from this day, such as 2026-11-21, or this time (RFC 3339) on"`
	Until   string  `query:"until" doc:"only before this day or time"`
	Who     string  `query:"who" doc:"only of this operator, account or robot"`
	Kind    Kind    `query:"kind" enum:"operator,account,robot,visitor,command" doc:"only of this kind: operator, account, robot, visitor or command"`
	Act     Act     `query:"act" doc:"only this act, such as login, add, change, remove, takedown"`
	Object  string  `query:"object" doc:"only what is about this: a part of the name of an account, host, batch …"`
	Outcome Outcome `query:"outcome" enum:"begun,ok,failed,refused" doc:"only begun (its end is not known), ok, failed or refused"`
	Before  int64   `query:"before" min:"1" doc:"go on below the row with this number, which the answer before says as next"`
	Limit   int     `query:"limit" min:"1" max:"10000" default:"100" doc:"rows at most"`
	Format  string  `query:"format" enum:"csv"`
}

// Filter returns the query as a Filter. A day stands for its beginning in zone. Errors are
// problems to answer.
func (q Query) Filter(zone *time.Location) (f Filter, err error) {
	f = Filter{Who: q.Who, Kind: q.Kind, Act: q.Act, Object: q.Object, Outcome: q.Outcome, Before: q.Before, Limit: q.Limit}
	if f.Act != "" && !slices.Contains(Acts(), f.Act) {
		return f, problem.BadQuery("act %.200q: want one of %v", f.Act, Acts())
	}
	if err := display.ParsePeriod(q.Since, q.Until, zone, &f.Since, &f.Until); err != nil {
		return f, problem.BadQuery("%v", err)
	}
	return f, nil
}

// WriteCSV writes a line of column names and a line for each row (RFC 4180). If a spreadsheet would
// take a cell for a formula, the cell gets an apostrophe at its beginning, because anybody can
// write names and reasons.
func WriteCSV(w io.Writer, rows []Row) error {
	out := csv.NewWriter(w)
	out.Write([]string{"id", "at", "kind", "name", "address", "act", "object", "outcome", "reason", "request", "count"})
	for _, r := range rows {
		out.Write([]string{strconv.FormatInt(r.ID, 10), r.At.Format(time.RFC3339), string(r.Kind), plain(r.Name), r.Address,
			string(r.Act), plain(r.Object), string(r.Outcome), plain(r.Reason), plain(r.Request), strconv.FormatInt(max(r.Count, 1), 10)})
	}
	out.Flush()
	return out.Error()
}

// plain returns a text as a cell that no spreadsheet takes for a formula (OWASP, CSV injection).
func plain(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) || strings.HasPrefix(text, "\uFF1D") || strings.HasPrefix(text, "\uFF0B") ||
		strings.HasPrefix(text, "\uFF0D") || strings.HasPrefix(text, "\uFF20") {
		return "'" + text
	}
	return text
}
