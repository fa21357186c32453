package board

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
)

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

var ratesTemplate = parse("rates")

func (b *board) transfers(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	now := time.Now()
	asked, err := route.Query[transfers.PeriodQuery](q)
	if err != nil {
		return err
	}
	filter, err := asked.Filter(b.Site.Local(now).Location(), now)
	if err != nil {
		return problem.BadQuery("%v", err)
	}
	filter.Each = true
	lines, err := b.Transfers.Periods(r.Context(), filter)
	if err != nil {
		return err
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
	return webpage.Show(w, r, http.StatusOK, ratesTemplate, p)
}

var lengths = []string{transfers.Hour, transfers.Day, transfers.Month}

// Begun returns the name of a line's period.
func (p ratesPage) Begun(at time.Time) string { return PeriodName(p.Filter.By, at) }
