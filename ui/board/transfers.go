package board

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
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

// ratesPage shows transfer rates by hour, day or month.
type ratesPage struct {
	page
	Filter transfers.PeriodFilter
	Charts []webpage.Chart
	Lines  []transfers.Period // the newest first
	Pager  pager
	CSV    string
	Others []other // links to other periods
}

// other is a link to the same transfers by another period.
type other struct {
	By, Name, Path string
	Now            bool
}

func (b *board) transfers(r *http.Request) (any, error) {
	q := r.URL.Query()
	now := time.Now()
	asked, err := route.Query[transfers.PeriodQuery](q)
	if err != nil {
		return nil, err
	}
	filter, err := asked.Filter(b.Site.Local(now).Location(), now)
	if err != nil {
		return nil, problem.BadQuery("%v", err)
	}
	filter.Each = true
	lines, err := b.Transfers.Periods(r.Context(), filter)
	if err != nil {
		return nil, err
	}
	p := ratesPage{page: b.page(r), Filter: filter}
	until := now
	if !filter.Until.IsZero() {
		until = filter.Until
	}
	p.Charts = Charts(p.Page, filter, lines, until)
	slices.Reverse(lines)
	p.Lines, p.Pager = paged(r, lines)
	with := func(path, key, value string) string {
		changed := url.Values{"by": {filter.By}}
		for _, k := range []string{"who", "direction"} {
			if v := q.Get(k); v != "" {
				changed.Set(k, v)
			}
		}
		changed.Set(key, value)
		return path + "?" + changed.Encode()
	}
	csv := q
	csv.Del("from")
	csv.Set("format", "csv")
	csv.Set("each", "1")
	p.CSV = api.PathPeriods + "?" + csv.Encode()
	for by, name := range map[string]string{transfers.Hour: p.T("by hour"), transfers.Day: p.T("by day"), transfers.Month: p.T("by month")} {
		p.Others = append(p.Others, other{by, name, with(pathTransfers, "by", by), by == filter.By})
	}
	slices.SortFunc(p.Others, func(a, b other) int { return slices.Index(lengths, a.By) - slices.Index(lengths, b.By) })
	return p, nil
}

var lengths = []string{transfers.Hour, transfers.Day, transfers.Month}

// Begun returns the name of a line's period.
func (p ratesPage) Begun(at time.Time) string { return PeriodName(p.Filter.By, at) }

// Charts draws transfers, with uploads and downloads in separate charts: the bytes (of each robot
// or account if f.Each is set) and beside them the mean rate. A period without transfers has no
// rate.
func Charts(p webpage.Page, f transfers.PeriodFilter, periods []transfers.Period, until time.Time) (all []webpage.Chart) {
	begins, column := columnsOf(f, until)
	axis := webpage.TimeAxis(p, begins)
	for _, direction := range []string{transfers.Upload, transfers.Download} {
		if f.Direction != "" && f.Direction != direction {
			continue
		}
		name := p.T("Received from robots")
		if direction == transfers.Download {
			name = p.T("Fetched by readers")
		}
		each, sums := make(map[string][]float64), make([]transfers.Period, len(begins))
		for _, one := range periods {
			i, ok := column[one.Begin.Unix()]
			if !ok || one.Direction != direction {
				continue
			}
			if each[one.Who] == nil {
				each[one.Who] = make([]float64, len(begins))
			}
			each[one.Who][i] += float64(one.Bytes)
			sums[i].Add(one)
		}
		rates := make([]float64, len(begins))
		for i, sum := range sums {
			if rates[i] = sum.Rate(); sum.Took == 0 {
				rates[i] = webpage.NoData
			}
		}
		all = append(all, webpage.NewChart(p, p.T("%s: bytes", name), webpage.UnitBytes, axis, byName(each, len(begins))...),
			webpage.NewChart(p, p.T("%s: bytes a second of a transfer", name), webpage.UnitRate, axis, webpage.Series{Values: rates}))
	}
	return all
}

// columnsOf returns the beginnings of a chart's periods, up to the period of until. column has the
// index of each beginning, in seconds since 1970.
func columnsOf(f transfers.PeriodFilter, until time.Time) (begins []time.Time, column map[int64]int) {
	column = make(map[int64]int)
	for at := f.Beginning(f.Since); !at.After(until); at = f.Next(at) {
		column[at.Unix()] = len(begins)
		begins = append(begins, at)
	}
	return begins, column
}

// byName returns one series for each name, or one series of zeros if there are no names.
func byName(each map[string][]float64, columns int) (all []webpage.Series) {
	for name, values := range each {
		all = append(all, webpage.Series{Name: name, Values: values})
	}
	if all == nil {
		all = []webpage.Series{{Values: make([]float64, columns)}}
	}
	slices.SortFunc(all, func(a, b webpage.Series) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// PeriodName formats the beginning of a period as its name.
func PeriodName(by string, at time.Time) string {
	switch by {
	case transfers.Hour:
		return at.Format("01-02 15:04")
	case transfers.Month:
		return at.Format("2006-01")
	}
	return at.Format(time.DateOnly)
}
