package transfers

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
)

const defaultLimit, maxLimit = 100, 10000

// Document is the answer of GET /v1/transfers: the totals of all selected transfers, one page of
// them, newest first, and those under way. The next page is at ?before=<Next>.
type Document struct {
	Totals    []TotalLine    `json:"totals"`
	Transfers []TransferLine `json:"transfers"`
	Next      int64          `json:"next,omitempty"`

	// Running are the transfers under way in the process that answers, longest first.
	Running []TransferLine `json:"running"`
}

// TransferLine is a Transfer in JSON.
type TransferLine struct {
	ID        int64     `json:"id,omitempty"`
	At        time.Time `json:"at"`
	Direction string    `json:"direction"`
	Protocol  string    `json:"protocol"`
	Who       string    `json:"who"`
	Name      string    `json:"name"`
	Bytes     int64     `json:"bytes"`
	Seconds   float64   `json:"seconds"`
	Outcome   string    `json:"outcome,omitempty"` // empty: under way
	Remote    string    `json:"remote"`

	// Acknowledged and Count are as in Transfer.
	Acknowledged bool  `json:"acknowledged"`
	Count        int64 `json:"count"`
}

func linesOf(list []Transfer) []TransferLine {
	lines := make([]TransferLine, 0, len(list))
	for _, t := range list {
		lines = append(lines, TransferLine{t.ID, t.At, t.Direction, t.Protocol, t.Who, t.Name, t.Bytes, t.Took.Seconds(), t.Outcome, t.Remote, t.Acknowledged, max(t.Count, 1)})
	}
	return lines
}

// Register mounts GET /v1/transfers and /v1/transfers/periods behind the operators' gate. The
// query of the first has who, direction, since (RFC 3339), before and limit; for the other one see
// ParsePeriods. Running may be nil. Zone is that of days and months.
func Register(r *mux.Router, gate operators.Gate, transfers *Log, running *Running, zone *time.Location, log *slog.Logger) {
	get := func(path string, h func(http.ResponseWriter, *http.Request) error) {
		r.Handle(path, gate(operators.Viewer, audit.None, problem.Handler(log, h))).Methods(http.MethodGet)
	}
	get(api.PathTransfers, func(w http.ResponseWriter, r *http.Request) error { return transfers.serve(w, r, running) })
	get(api.PathPeriods, func(w http.ResponseWriter, r *http.Request) error { return transfers.servePeriods(w, r, zone) })
}

func (l *Log) serve(w http.ResponseWriter, r *http.Request, running *Running) error {
	f, err := parseFilter(r.URL.Query())
	if err != nil {
		return problem.New(http.StatusBadRequest, "bad_query", err.Error())
	}
	all := f
	all.Before = 0 // the totals are the same on every page
	totals, err := l.Totals(r.Context(), all)
	if err != nil {
		return err
	}
	list, err := l.List(r.Context(), f)
	if err != nil {
		return err
	}
	doc := Document{Totals: append([]TotalLine{}, totals...), Transfers: linesOf(list), Running: linesOf(running.List(f))}
	if len(list) == f.Limit {
		doc.Next = list[len(list)-1].ID
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(doc)
}

func parseFilter(q url.Values) (Filter, error) {
	f := Filter{Who: q.Get("who"), Direction: q.Get("direction"), Limit: defaultLimit}
	if f.Direction != "" && f.Direction != Upload && f.Direction != Download {
		return f, fmt.Errorf("direction %q is neither %s nor %s", f.Direction, Upload, Download)
	}
	var err error
	if s := q.Get("since"); s != "" {
		if f.Since, err = time.Parse(time.RFC3339, s); err != nil {
			return f, fmt.Errorf("since %q is not a time like 2026-11-21T09:00:00Z", s)
		}
	}
	if s := q.Get("before"); s != "" {
		if f.Before, err = strconv.ParseInt(s, 10, 64); err != nil || f.Before < 1 {
			return f, fmt.Errorf("before %q is not the number that an answer gave as next", s)
		}
	}
	if s := q.Get("limit"); s != "" {
		if f.Limit, err = strconv.Atoi(s); err != nil || f.Limit < 1 || f.Limit > maxLimit {
			return f, fmt.Errorf("limit %q is not between 1 and %d", s, maxLimit)
		}
	}
	return f, nil
}
