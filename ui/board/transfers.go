package board

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/transfers"
)

// Operations on transfers, for programs.
var (
	ListTransfers = route.New[transfers.Query, transfers.Document]("GET", api.PathTransfers, operators.Viewer, audit.None, "Bytes, seconds and bytes/s of every robot and account, and the transfers under way").
			Saying("Where `acknowledged` is true, bytes and seconds are what the client has acknowledged by TCP: downloads by\nHTTP/1 and FTP without TLS or a proxy. Otherwise they are what the service wrote or read. `running` is of the\nprocess that answers. Small downloads that a client repeats within a minute are one line, with their `count`.\n`(others)` sums up paths of clients without an account that ask for very many.\n")
	ListPeriods = route.New[transfers.PeriodQuery, transfers.PeriodDocument]("GET", api.PathPeriods, operators.Viewer, audit.None, "Transfers by hour, day or month, in the service's time zone").
			Saying("Sums outlive the single transfers. Hours are kept for 400 days. Without `since`: two days by the hour, 31 days by the day, 13 months.").
			Also(http.StatusOK, "text/csv", "")
)

// RegisterTransfers mounts the operations on transfers behind the operators' gate. running may be
// nil. zone is the time zone of days and months.
func RegisterTransfers(r *mux.Router, gate operators.Gate, of *transfers.Log, running *transfers.Running, zone *time.Location, log *slog.Logger) {
	registerTransfers(gate.Mount(r, log, nil), of, running, zone)
}

func registerTransfers(mount route.Mount, of *transfers.Log, running *transfers.Running, zone *time.Location) {
	ListTransfers.On(mount, func(ctx context.Context, q transfers.Query) (doc transfers.Document, err error) {
		f, err := q.Filter()
		if err != nil {
			return doc, problem.BadQuery("%v", err)
		}
		return of.Document(ctx, f, running)
	})
	ListPeriods.Raw(mount, func(w http.ResponseWriter, r *http.Request) error { return servePeriods(w, r, of, zone) })
}

// TransferRoutes returns the operations on transfers, for the API description.
func TransferRoutes() []*route.Route {
	return route.List(func(mount route.Mount) { registerTransfers(mount, nil, nil, nil) })
}

// servePeriods answers with JSON or, with format=csv, with CSV.
func servePeriods(w http.ResponseWriter, r *http.Request, of *transfers.Log, zone *time.Location) error {
	q, err := ListPeriods.Read(w, r)
	if err != nil {
		return err
	}
	f, err := q.Filter(zone, time.Now())
	if err != nil {
		return problem.BadQuery("%v", err)
	}
	doc, err := of.PeriodDocument(r.Context(), f)
	if err != nil {
		return err
	}
	if q.Format == "csv" {
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="transfers.csv"`)
		return transfers.WritePeriodsCSV(w, doc.Periods)
	}
	return problem.JSON(w, http.StatusOK, doc)
}
