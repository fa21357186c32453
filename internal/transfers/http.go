package transfers

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/route"
)

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

// Query is the query of GET /v1/transfers.
type Query struct {
	Who       string `query:"who" doc:"only of this one"`
	Direction string `query:"direction" enum:"upload,download"`
	Since     string `query:"since" doc:"RFC 3339"`
	Before    int64  `query:"before" min:"1" doc:"where to go on: the answer before says it as next"`
	Limit     int    `query:"limit" min:"1" max:"10000" default:"100" doc:"transfers at most"`
}

// Operations on transfers.
var (
	List = route.New[Query, Document]("GET", api.PathTransfers, operators.Viewer, audit.None, "Bytes, seconds and bytes/s of every robot and account, and the transfers under way").
		Saying("Where `acknowledged` is true, bytes and seconds are what the client has acknowledged by TCP: downloads by\nHTTP/1 and FTP without TLS or a proxy. Otherwise they are what the service wrote or read. `running` is of the\nprocess that answers. Small downloads that a client repeats within a minute are one line, with their `count`.\n`(others)` sums up paths of clients without an account that ask for very many.\n")
	ListPeriods = route.New[PeriodQuery, PeriodDocument]("GET", api.PathPeriods, operators.Viewer, audit.None, "Transfers by hour, day or month, in the service's time zone").
			Saying("Sums outlive the single transfers. Hours are kept for 400 days. Without `since`: two days by the hour, 31 days by the day, 13 months.").
			Also(http.StatusOK, "text/csv", "")
)

// Register mounts the operations behind the operators' gate. Running may be nil. Zone is that of
// days and months.
func Register(r *mux.Router, gate operators.Gate, transfers *Log, running *Running, zone *time.Location, log *slog.Logger) {
	register(gate.Mount(r, log, nil), transfers, running, zone)
}

func register(mount route.Mount, transfers *Log, running *Running, zone *time.Location) {
	List.On(mount, func(ctx context.Context, q Query) (Document, error) { return transfers.page(ctx, q, running) })
	ListPeriods.Raw(mount, func(w http.ResponseWriter, r *http.Request) error { return transfers.servePeriods(w, r, zone) })
}

// Routes returns the operations, for the description.
func Routes() []route.Route {
	return route.List(func(mount route.Mount) { register(mount, nil, nil, nil) })
}

func (l *Log) page(ctx context.Context, q Query, running *Running) (doc Document, err error) {
	f := Filter{Who: q.Who, Direction: q.Direction, Before: q.Before, Limit: q.Limit}
	if q.Since != "" {
		if f.Since, err = time.Parse(time.RFC3339, q.Since); err != nil {
			return doc, problem.New(http.StatusBadRequest, "bad_query", fmt.Sprintf("since %q is not a time like 2026-11-21T09:00:00Z", q.Since))
		}
	}
	all := f
	all.Before = 0 // the totals are the same on every page
	totals, err := l.Totals(ctx, all)
	if err != nil {
		return doc, err
	}
	list, err := l.List(ctx, f)
	if err != nil {
		return doc, err
	}
	doc = Document{Totals: append([]TotalLine{}, totals...), Transfers: linesOf(list), Running: linesOf(running.List(f))}
	if len(list) == f.Limit {
		doc.Next = list[len(list)-1].ID
	}
	return doc, nil
}
