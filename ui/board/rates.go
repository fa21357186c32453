package board

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/problem"
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
	Others []other // the same by other periods
}

// other leads to the same transfers by another period.
type other struct {
	By, Name, Path string
	Now            bool
}

var ratesTemplate = parse("rates")

func (b *board) transfers(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	now := time.Now()
	filter, err := transfers.ParsePeriods(q, b.Site.Local(now).Location(), now)
	if err != nil {
		return problem.New(http.StatusBadRequest, "bad_query", err.Error())
	}
	filter.Each = false
	sums, err := b.Transfers.Periods(r.Context(), filter)
	if err != nil {
		return err
	}
	p := ratesPage{page: b.page(r), Filter: filter}
	until := now
	if !filter.Until.IsZero() {
		until = filter.Until
	}
	p.Charts = charts(p.Page, filter, sums, until)
	filter.Each = true
	lines, err := b.Transfers.Periods(r.Context(), filter)
	if err != nil {
		return err
	}
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

// charts draws bytes and mean rates, uploads and downloads apart. Periods without transfers are empty
// places.
func charts(p webpage.Page, f transfers.PeriodFilter, periods []transfers.Period, until time.Time) (all []webpage.Chart) {
	type key struct {
		begin     int64
		direction string
	}
	found := make(map[key]transfers.Period)
	for _, one := range periods {
		found[key{one.Begin.Unix(), one.Direction}] = one
	}
	for _, direction := range []string{transfers.Upload, transfers.Download} {
		if f.Direction != "" && f.Direction != direction {
			continue
		}
		name := p.T("Received from robots")
		if direction == transfers.Download {
			name = p.T("Fetched by readers")
		}
		var bytes, rates []webpage.Value
		for at := f.Beginning(f.Since); !at.After(until); at = f.Next(at) {
			one := found[key{at.Unix(), direction}]
			label := periodName(f.By, at)
			text := p.T("%s: %s in %s transfers, %s", label, p.Bytes(one.Bytes), p.Number(one.Count), p.Rate(one.Rate()))
			bytes = append(bytes, webpage.Value{Amount: float64(one.Bytes), Label: text, Below: label, Other: direction == transfers.Download})
			rates = append(rates, webpage.Value{Amount: one.Rate(), Label: text, Below: label, Other: direction == transfers.Download})
		}
		all = append(all, webpage.NewChart(p.T("%s: bytes", name), bytes, p.BytesOf), webpage.NewChart(p.T("%s: bytes a second of a transfer", name), rates, p.Rate))
	}
	return all
}

// periodName names a period by its beginning.
func periodName(by string, at time.Time) string {
	switch by {
	case transfers.Hour:
		return at.Format("01-02 15:04")
	case transfers.Month:
		return at.Format("2006-01")
	}
	return at.Format(time.DateOnly)
}

// Begun names a line's period.
func (p ratesPage) Begun(at time.Time) string { return periodName(p.Filter.By, at) }
