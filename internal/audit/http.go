package audit

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RowList is the answer of GET /v1/audit: rows, newest first. The next page is at ?before=<Next>.
type RowList struct {
	Rows []Row `json:"rows"`
	Next int64 `json:"next,omitempty"`
}

// Limits of a page of rows.
const (
	DefaultLimit = 100
	maxLimit     = 10000
)

// Serve answers GET /v1/audit with JSON or, with format=csv, with CSV. The query is that of
// ParseFilter. Days are those of zone.
func (l *Log) Serve(w http.ResponseWriter, r *http.Request, zone *time.Location) error {
	q := r.URL.Query()
	f, err := ParseFilter(q, zone)
	if err != nil {
		return err
	}
	doc, err := l.Page(r.Context(), f)
	if err != nil {
		return err
	}
	if doc.Next != 0 {
		q.Set("before", strconv.FormatInt(doc.Next, 10))
		w.Header().Set("Link", fmt.Sprintf(`<%s?%s>; rel="next"`, r.URL.Path, q.Encode()))
	}
	if q.Get("format") == "csv" {
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="audit.csv"`)
		return WriteCSV(w, doc.Rows)
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(doc)
}

// ParseFilter parses a query for rows: since and until (a day, or RFC 3339), who, kind, act,
// object, outcome, before and limit. It fails with *QueryError.
func ParseFilter(q url.Values, zone *time.Location) (f Filter, err error) {
	f = Filter{
		Who: q.Get("who"), Kind: Kind(q.Get("kind")), Act: Act(q.Get("act")), Object: q.Get("object"),
		Outcome: Outcome(q.Get("outcome")), Limit: DefaultLimit,
	}
	if f.Kind != "" && !slices.Contains(Kinds(), f.Kind) {
		return f, &QueryError{"kind", string(f.Kind), "want " + oneOf(Kinds())}
	}
	if f.Act != "" && !slices.Contains(Acts(), f.Act) {
		return f, &QueryError{"act", string(f.Act), "want " + oneOf(Acts())}
	}
	if f.Outcome != "" && !slices.Contains(Outcomes(), f.Outcome) {
		return f, &QueryError{"outcome", string(f.Outcome), "want " + oneOf(Outcomes())}
	}
	for name, t := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		text := q.Get(name)
		if text == "" {
			continue
		}
		if *t, err = time.ParseInLocation(time.DateOnly, text, zone); err != nil {
			*t, err = time.Parse(time.RFC3339, text)
		}
		if err != nil {
			return f, &QueryError{name, text, "want a day like 2026-11-21 or a time like 2026-11-21T09:00:00Z"}
		}
	}
	if text := q.Get("before"); text != "" {
		if f.Before, err = strconv.ParseInt(text, 10, 64); err != nil || f.Before < 1 {
			return f, &QueryError{"before", text, "want the number that an answer gave as next"}
		}
	}
	if text := q.Get("limit"); text != "" {
		if f.Limit, err = strconv.Atoi(text); err != nil || f.Limit < 1 || f.Limit > maxLimit {
			return f, &QueryError{"limit", text, fmt.Sprintf("want a number from 1 to %d", maxLimit)}
		}
	}
	return f, nil
}

func oneOf[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = string(v)
	}
	return strings.Join(texts, ", ")
}

// WriteCSV writes a line for each row, below one of names (RFC 4180). A cell that a spreadsheet
// would take for a formula begins with an apostrophe: names and reasons come from anybody.
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

// plain is a text as a cell that no spreadsheet takes for a formula (OWASP, CSV injection).
func plain(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) || strings.HasPrefix(text, "\uFF1D") || strings.HasPrefix(text, "\uFF0B") ||
		strings.HasPrefix(text, "\uFF0D") || strings.HasPrefix(text, "\uFF20") {
		return "'" + text
	}
	return text
}
